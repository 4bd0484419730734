// Names, schedules, policies, the guard's rule, the history file.
#include <cdt/core/error.h>
#include <cdt/train/batches.h>
#include <cdt/train/history.h>
#include <cdt/train/loop/guard.h>
#include <cdt/train/method.h>
#include <cdt/train/stopping.h>
#include <gmock/gmock.h>
#include <torch/types.h>

#include <cmath>

namespace cdt::train {
namespace {

using testing::HasSubstr;

template <class Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "was not refused";
}

TEST(Options, NamesSurviveTheWayThere) {
  for (const char* name : {"gd", "gd-matched", "cdt", "guarded", "momentum", "adam", "lbfgs"}) {
    EXPECT_EQ(to_string(Method(name)), name);
  }
  for (const char* name : {"constant", "inverse", "exponential", "cosine", "step"}) {
    EXPECT_EQ(to_string(parse_schedule(name)), name);
  }
  for (const char* text : {"never", "every:25", "kc", "error:0.05", "guard"}) {
    EXPECT_EQ(to_string(parse_relinearization(text)), text);
  }
  EXPECT_THAT(refusal([] { Method("sgd"); }), HasSubstr("got 'sgd'"));
  for (const char* text : {"every", "every:", "every:0", "every:2.5", "every:x", "error:-1",
                           "error:nan", "sometimes", ""}) {
    EXPECT_THAT(refusal([&] { parse_relinearization(text); }),
                HasSubstr(std::string("'") + text + "'"));
  }
}

TEST(Options, SchedulesFollowTheirFormulas) {
  using Kind = Schedule::Kind;
  EXPECT_EQ((Schedule{Kind::kConstant, 0.3}.factor(77, 100)), 1);
  EXPECT_DOUBLE_EQ((Schedule{Kind::kInverse, 0.01}.factor(250, 1000)), 1 / 3.5);
  EXPECT_DOUBLE_EQ((Schedule{Kind::kExponential, 0.1}.factor(20, 100)), std::exp(-2.0));
  EXPECT_NEAR((Schedule{Kind::kCosine, 0}.factor(50, 100)), 0.5, 1e-15);
  EXPECT_NEAR((Schedule{Kind::kCosine, 0}.factor(100, 100)), 0, 1e-15);
  EXPECT_DOUBLE_EQ((Schedule{Kind::kStep, 0.5, 10}.factor(29, 100)), 0.25);
}

TEST(Options, RefusesWhatCannotBe) {
  const auto with = [](auto change) {
    TrainOptions options;
    change(options);
    return refusal([&] { require_valid(options); });
  };
  EXPECT_EQ(with([](auto&) {}), "was not refused");
  EXPECT_THAT(with([](auto& o) { o.learning_rate = 0; }), HasSubstr("lr"));
  EXPECT_THAT(with([](auto& o) { o.p = -1; }), HasSubstr("p must"));
  EXPECT_THAT(with([](auto& o) { o.weight_decay = -1; }), HasSubstr("weight decay"));
  EXPECT_THAT(with([](auto& o) { o.steps = -1; }), HasSubstr("steps"));
  EXPECT_THAT(with([](auto& o) { o.batch = -1; }), HasSubstr("batch"));
  EXPECT_THAT(with([](auto& o) { o.schedule = {Schedule::Kind::kStep, 2}; }), HasSubstr("decay"));
  EXPECT_THAT(with([](auto& o) {
                o.method = "gd";
                o.relinearize = parse_relinearization("kc");
              }),
              HasSubstr("gd uses no kernel"));
  EXPECT_THAT(with([](auto& o) {
                o.method = "cdt";
                o.relinearize = parse_relinearization("guard");
              }),
              HasSubstr("cdt has no guard"));
}

TEST(Options, SomeLossesCannotBeControlled) {
  using loss::LossPtr;
  const auto with = [](Method method, LossPtr loss, auto change) {
    TrainOptions options;
    options.method = method;
    options.loss = loss;
    change(options);
    return refusal([&] { require_valid(options); });
  };
  const auto plainly = [](auto&) {};
  for (const Method method : {"cdt", "guarded"}) {
    EXPECT_THAT(with(method, loss::mae(), plainly), HasSubstr("no curvature"));
    EXPECT_EQ(with(method, loss::cross_entropy(), plainly), "was not refused");
    EXPECT_THAT(with(method, loss::cross_entropy(), [](auto& o) { o.smoothing = 0; }),
                HasSubstr("hard labels have none"));
    EXPECT_THAT(with(method, loss::cross_entropy(), [](auto& o) { o.shape = 0.1; }),
                HasSubstr("shaping"));
  }
  EXPECT_THAT(with("gd", loss::mae(), plainly), HasSubstr("needs lr"));
  EXPECT_EQ(with("adam", loss::mae(), plainly), "was not refused");
  EXPECT_EQ(with("gd", loss::mae(), [](auto& o) { o.learning_rate = 1; }), "was not refused");
  EXPECT_EQ(with("gd", loss::cross_entropy(), [](auto& o) { o.smoothing = 0; }), "was not refused");
  EXPECT_THAT(with("gd", loss::cross_entropy(), [](auto& o) { o.smoothing = 1; }),
              HasSubstr("below 1"));
  EXPECT_THAT(with("gd", loss::mse(), [](auto& o) { o.smoothing = 0.1; }), HasSubstr("not to mse"));
  for (const Method method : {"cdt", "guarded"}) {
    EXPECT_EQ(with(method, loss::cross_entropy(), [](auto& o) { o.weight_decay = 1e-3; }),
              "was not refused");
  }
  EXPECT_THAT(with("adam", loss::negative_log(), plainly), HasSubstr("on logits"));
}

TEST(Methods, EachHasOneLineInTheTable) {
  for (const Method& method : Method::all()) {
    EXPECT_EQ(&*Method(method.name()), &*method);
    EXPECT_TRUE(method->make);
    EXPECT_EQ(std::ranges::count(Method::names(), method.name()), 1);
  }
  EXPECT_EQ(start_rate("guarded", 2), 2e4);
  EXPECT_EQ(start_rate("adam", 2), 1e-3);
}

TEST(Stopping, EachRuleHasItsWord) {
  using testing::Optional;
  TrainOptions options;
  options.steps = 100;
  options.stop_loss = 1e-3;
  options.max_seconds = 60;
  options.patience = 3;
  options.plateau = 5;
  const auto check = [&](StoppingRules& rules, auto change) {
    Seen seen{.step = 10, .batch_loss = 1, .train_loss = 1, .val_loss = 1};
    change(seen);
    return rules.check(seen).outcome;
  };
  const auto alone = [&](auto change) {
    StoppingRules rules(options);
    return check(rules, change);
  };
  EXPECT_EQ(alone([](auto&) {}), std::nullopt);
  EXPECT_THAT(alone([](auto& s) { s.batch_loss = NAN; }), Optional(Outcome::kDiverged));
  EXPECT_THAT(alone([](auto& s) { s.train_loss = INFINITY; }), Optional(Outcome::kDiverged));
  EXPECT_EQ(alone([](auto& s) { s.train_loss = NAN; }), std::nullopt) << "not evaluated";
  EXPECT_THAT(alone([](auto& s) { s.train_loss = 1e-4; }), Optional(Outcome::kTarget));
  EXPECT_THAT(alone([](auto& s) { s.misfit = 1e-4; }), Optional(Outcome::kTarget));
  EXPECT_THAT(alone([](auto& s) { s.step = 100; }), Optional(Outcome::kSteps));
  EXPECT_THAT(alone([](auto& s) { s.seconds = 61; }), Optional(Outcome::kTime));

  StoppingRules rules(options);
  check(rules, [](auto& s) { s.val_loss = 0.5; });
  EXPECT_EQ(rules.best_step(), 10);
  EXPECT_EQ(check(rules, [](auto& s) { s.step = 12; }), std::nullopt);
  EXPECT_TRUE(rules.prefers_best(12));
  SavedState saved;
  rules.save(saved);
  StoppingRules again(options);
  again.restore(saved);
  for (StoppingRules* one : {&rules, &again}) {
    EXPECT_THAT(check(*one, [](auto& s) { s.step = 13; }), Optional(Outcome::kEarlyStopping));
    // A better one comes; the training loss has stood still since step 10.
    EXPECT_THAT(check(*one,
                      [](auto& s) {
                        s.step = 15;
                        s.val_loss = 0.4;
                        s.train_loss = 1 - 1e-5;
                      }),
                Optional(Outcome::kPlateau));
    EXPECT_EQ(one->best_val_loss(), 0.4);
  }
}

TEST(Guard, FollowsItsRule) {
  GuardState state{8, 8};
  EXPECT_EQ(judge(state, 0.9, true), Verdict::kAccept);
  EXPECT_EQ(judge(state, 0.6, false), Verdict::kAccept);
  EXPECT_EQ(judge(state, 0.4, false), Verdict::kAcceptAndRefresh);
  EXPECT_EQ(judge(state, 0.0, false), Verdict::kRejectAndRefresh);
  EXPECT_EQ(state.rate, 8);
  EXPECT_EQ(judge(state, -3, true), Verdict::kRejectAndShrink);
  EXPECT_EQ(judge(state, std::nan(""), true), Verdict::kRejectAndShrink);
  EXPECT_EQ(state.rate, 0.5);
  // Two good steps in a row double it, never beyond its start.
  state.failures = state.wary_steps = 0;
  EXPECT_EQ(judge(state, 0.8, true), Verdict::kAccept);
  EXPECT_EQ(state.rate, 0.5);
  judge(state, 0.6, false);  // not good enough: the count starts again
  judge(state, 0.8, false);
  EXPECT_EQ(state.rate, 0.5);
  judge(state, 0.8, false);
  EXPECT_EQ(state.rate, 1);
  for (int k = 0; k < 20; ++k) judge(state, 1, false);
  EXPECT_EQ(state.rate, 8);
}

TEST(Guard, IsWaryForLongerEachTimeAnOldKernelFails) {
  GuardState state{1, 1};
  EXPECT_EQ(judge(state, 0.9, true), Verdict::kAccept);
  EXPECT_EQ(judge(state, -1, false), Verdict::kRejectAndRefresh);
  for (const int wary : {1, 2, 4, 8, 16, 16}) {
    for (int k = 0; k < wary; ++k) {
      EXPECT_EQ(judge(state, 0.9, true), Verdict::kAcceptAndRefresh);
    }
    EXPECT_EQ(judge(state, 0.9, true), Verdict::kAccept);
    EXPECT_EQ(judge(state, -1, false), Verdict::kRejectAndRefresh);
  }
  EXPECT_EQ(judge(state, 0.98, true), Verdict::kAccept);  // worth a try
  EXPECT_EQ(judge(state, 0.6, false), Verdict::kAccept);  // and it worked
  EXPECT_EQ(judge(state, 0.9, true), Verdict::kAccept);
  EXPECT_EQ(judge(state, -1, false), Verdict::kRejectAndRefresh);
  EXPECT_EQ(judge(state, 0.9, true), Verdict::kAcceptAndRefresh);
  EXPECT_EQ(judge(state, 0.9, true), Verdict::kAccept);
}

TEST(Guard, RecognisesTheFloor) {
  GuardState state{1, 1};
  for (int k = 0; k < 20; ++k) ASSERT_EQ(judge(state, 0, true), Verdict::kRejectAndShrink);
  EXPECT_EQ(judge(state, 0, true), Verdict::kFloor);
  // A step that helps in between starts the count again.
  state = {1, 1};
  for (int k = 0; k < 20; ++k) judge(state, 0, true);
  judge(state, 0.5, true);
  EXPECT_EQ(judge(state, 0, true), Verdict::kRejectAndShrink);
  // A rate that was given may be far above the usual one: that is no floor.
  state = {0x1p64, 0x1p64, 1};
  for (const double rate : {0x1p32, 0x1p16, 0x1p8, 0x1p4, 0x1p2, 1.0}) {
    ASSERT_EQ(judge(state, 0, true), Verdict::kRejectAndShrink);
    EXPECT_DOUBLE_EQ(state.rate, rate);
  }
  for (int k = 0; k < 20; ++k) ASSERT_EQ(judge(state, 0, true), Verdict::kRejectAndShrink);
  EXPECT_EQ(judge(state, 0, true), Verdict::kFloor);
}

TEST(History, SurvivesItsFile) {
  std::vector<StepRecord> history(3);
  history[1] = {7, 0.1, 1.0 / 3, 2e-300, 5, kUnknown, 2, 3, 1.25, 0.5};
  history[2].train_loss = std::numeric_limits<double>::infinity();
  const auto again = parse_history(to_csv(history));
  ASSERT_EQ(again.size(), 3U);
  EXPECT_EQ(again[1].train_loss, 1.0 / 3);
  EXPECT_EQ(again[1].val_loss, 2e-300);
  EXPECT_TRUE(std::isnan(again[1].linearization_error));
  EXPECT_EQ(again[1].refreshed, 2);
  EXPECT_EQ(again[1].rejected, 3);
  EXPECT_EQ(again[1].seconds, 1.25);
  EXPECT_EQ(again[1].objective, 0.5);
  EXPECT_TRUE(std::isinf(again[2].train_loss));
  EXPECT_EQ(to_csv(again), to_csv(history));
  EXPECT_THAT(refusal([] { parse_history("a,b\n1,2\n"); }), HasSubstr("header"));
  const std::string csv = to_csv(history);
  EXPECT_THAT(refusal([&] { parse_history(csv + "1,2\n"); }), HasSubstr("12 cells"));
  // Files of before the objective was recorded.
  const auto old = parse_history(
      "step,lr,train_loss,val_loss,augment_norm,linearization_error,refreshed,rejected,seconds\n"
      "0,0.1,2,,,,1,0,0.5\n");
  ASSERT_EQ(old.size(), 1U);
  EXPECT_EQ(old[0].seconds, 0.5);
  EXPECT_TRUE(std::isnan(old[0].objective));
}

TEST(BatchesTest, CoverEverySampleOnceAnEpoch) {
  for (const bool reshuffle : {false, true}) {
    const Batches batches(10, 4, reshuffle, 3);
    EXPECT_EQ(batches.per_epoch(), 3);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<torch::Tensor> rows;
      for (int64_t k = 0; k < 3; ++k) rows.push_back(batches.rows(3 * epoch + k));
      const auto sorted = std::get<0>(torch::cat(rows).sort());
      EXPECT_TRUE(torch::equal(sorted, torch::arange(10)));
    }
    EXPECT_EQ(torch::equal(batches.rows(0), batches.rows(3)), !reshuffle);
    EXPECT_EQ(batches.id(0) == batches.id(3), !reshuffle);
  }
  EXPECT_TRUE(Batches(10, 0, false, 1).all());
  EXPECT_TRUE(Batches(10, 99, true, 1).all());
  EXPECT_FALSE(Batches(10, 99, true, 1).rows(5).defined());
}

}  // namespace
}  // namespace cdt::train
