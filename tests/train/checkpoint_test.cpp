// Interrupted and resumed: the same bits as a run that nobody disturbed.
#include <cdt/core/error.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/temp_folder.h"
#include "train/problem.h"

namespace cdt::train {
namespace {

using test::small_network;
using test::smooth_data;
using testing::HasSubstr;
using torch::Tensor;

struct Setting {
  std::string name;
  TrainOptions options;
  bool weighted = false;
  int64_t classes = 0;  ///< 0: numbers

  nn::Mlp network(uint64_t seed) const {
    return small_network(4, std::max<int64_t>(1, classes), seed, torch::kFloat32);
  }
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Method method : {"gd", "gd-matched", "cdt", "guarded", "momentum", "adam", "lbfgs"}) {
    Setting setting{to_string(method), {}};
    setting.options.method = method;
    setting.options.steps = 12;
    all.push_back(setting);
  }
  const auto vary = [&](const std::string& name, Method method, auto change) {
    Setting setting{name, {}};
    setting.options.method = method;
    setting.options.steps = 12;
    change(setting.options);
    all.push_back(setting);
  };
  vary("batches", "cdt", [](auto& o) { o.batch = 7; });
  vary("guarded batches", "guarded", [](auto& o) { o.batch = 7; });
  vary("reshuffled", "guarded", [](auto& o) {
    o.batch = 7;
    o.reshuffle = true;
  });
  vary("a small rate", "guarded", [](auto& o) { o.learning_rate = 0.05; });
  vary("error policy", "cdt", [](auto& o) {
    o.relinearize = parse_relinearization("error:0.02");
    o.learning_rate = 1;
  });
  vary("kc and decay", "cdt", [](auto& o) {
    o.relinearize = parse_relinearization("kc");
    o.schedule = {Schedule::Kind::kInverse, 0.05};
    o.weight_decay = 1e-3;
  });
  vary("guarded decay", "guarded", [](auto& o) { o.weight_decay = 1e-3; });
  vary("patience", "guarded", [](auto& o) { o.patience = 8; });
  vary("weights", "guarded", [](auto&) {});
  all.back().weighted = true;
  for (const Method method : {"cdt", "guarded", "adam"}) {
    vary("classes by " + to_string(method), method,
         [](auto& o) { o.loss = loss::cross_entropy(); });
    all.back().classes = 3;
  }
  vary("decay of classes", "guarded", [](auto& o) {
    o.loss = loss::cross_entropy();
    o.batch = 7;
    o.weight_decay = 1e-3;
  });
  all.back().classes = 3;
  vary("batches of classes", "guarded", [](auto& o) {
    o.loss = loss::cross_entropy();
    o.batch = 7;
    o.learning_rate = 30;
  });
  all.back().classes = 3;
  vary("kc of classes", "cdt", [](auto& o) {
    o.loss = loss::cross_entropy();
    o.relinearize = parse_relinearization("kc");
    o.learning_rate = 2;
  });
  all.back().classes = 3;
  return all;
}

TrainData data_for(const Setting& setting) {
  if (setting.classes > 0) return test::class_data(20, setting.classes, 3, torch::kFloat32);
  TrainData data = smooth_data(20, 1, 3, torch::kFloat32);
  if (setting.weighted) data.sample_weights = torch::linspace(1, 3, 20, torch::kFloat64);
  return data;
}

TEST(Checkpoint, ResumedEqualsUninterrupted) {
  for (const Setting& setting : settings()) {
    for (const int64_t stop : {1, 5}) {
      SCOPED_TRACE(setting.name + ", stopped after " + std::to_string(stop));
      nn::Mlp undisturbed = setting.network(9);
      const auto whole = Trainer(undisturbed, data_for(setting), setting.options).run();

      const test::TempFolder folder;
      nn::Mlp first = setting.network(9);
      TrainHooks hooks;
      int64_t done = 0;
      hooks.on_step = [&](const StepRecord&) { ++done; };
      hooks.stop_requested = [&] { return done >= stop; };
      hooks.checkpoint = [&](const SafeTensors& content) {
        save_safetensors(folder / "checkpoint.safetensors", content);
      };
      const auto part = Trainer(first, data_for(setting), setting.options).run(hooks);
      if (part.outcome != Outcome::kInterrupted) continue;  // it was faster than that
      EXPECT_EQ(part.steps, stop);

      nn::Mlp second = setting.network(77);  // other weights, to be replaced
      Trainer resumed(second, data_for(setting), setting.options);
      resumed.restore(load_safetensors(folder / "checkpoint.safetensors"));
      const auto rest = resumed.run();
      EXPECT_TRUE(test::same_bits(test::parameters_of(second), test::parameters_of(undisturbed)));
      EXPECT_EQ(rest.outcome, whole.outcome);
      EXPECT_EQ(rest.linearizations, whole.linearizations);
      EXPECT_EQ(rest.rejected, whole.rejected);
      ASSERT_EQ(rest.history.size(), whole.history.size());
      auto without_seconds = [](std::vector<StepRecord> history) {
        for (StepRecord& row : history) row.seconds = 0;
        return to_csv(history);
      };
      EXPECT_EQ(without_seconds(rest.history), without_seconds(whole.history));
    }
  }
}

TEST(Checkpoint, HasTheNamesThatItAlwaysHad) {
  // docs/formats.md promises that files of before can be read: these are their names.
  const auto names_of = [](const auto& map) {
    std::vector<std::string> names;
    for (const auto& [name, value] : map) names.push_back(name);
    return names;
  };
  using testing::UnorderedElementsAre;
  for (const Setting& setting : settings()) {
    if (setting.name != "kc of classes" && setting.name != "adam") continue;
    SCOPED_TRACE(setting.name);
    SafeTensors content;
    TrainHooks hooks;
    hooks.checkpoint = [&](const SafeTensors& saved) { content = saved; };
    nn::Mlp net = setting.network(9);
    Trainer(net, data_for(setting), setting.options).run(hooks);
    EXPECT_EQ(content.metadata.at("format"), "cdt-checkpoint-1");
    EXPECT_TRUE(content.metadata.contains("history"));
    const auto state = nlohmann::json::parse(content.metadata.at("state"));
    std::vector<std::string> names{"method",         "step",
                                   "learning_rate",  "seconds",
                                   "linearizations", "rejected",
                                   "best_step",      "best_val_loss",
                                   "plateau_step",   "plateau_loss",
                                   "has_best",       "pending_refreshed",
                                   "plans",          "pending_rejected"};
    if (setting.classes == 0) names.emplace_back("optimizer");
    EXPECT_THAT(names_of(state.get<std::map<std::string, nlohmann::json>>()),
                testing::UnorderedElementsAreArray(names));
    std::vector<std::string> expected;
    for (size_t i = 0; i < net->parameters().size(); ++i) {
      expected.push_back("parameters." + std::to_string(i));
      if (setting.classes > 0) expected.push_back("plan.0.parameters." + std::to_string(i));
    }
    if (setting.classes == 0) {
      EXPECT_TRUE(state.at("plans").empty());
      ASSERT_EQ(state.at("optimizer").size(), net->parameters().size());
      EXPECT_THAT(names_of(state.at("optimizer")[0].get<std::map<std::string, nlohmann::json>>()),
                  UnorderedElementsAre("parameter", "steps"));
      for (size_t i = 0; i < net->parameters().size(); ++i) {
        expected.push_back("optimizer." + std::to_string(i) + ".mean");
        expected.push_back("optimizer." + std::to_string(i) + ".square");
      }
    } else {
      ASSERT_EQ(state.at("plans").size(), 1U);
      EXPECT_THAT(
          names_of(state.at("plans")[0].get<std::map<std::string, nlohmann::json>>()),
          UnorderedElementsAre("batch", "step", "rate", "start_rate", "good_steps", "shrinks",
                               "failures", "wary_steps", "start_error", "bound", "hessian_norm",
                               "stale", "last_used", "rank", "rank_tolerance", "smallest"));
      for (const char* part : {"curvature", "eigenvalues", "eigenvectors", "outputs"}) {
        expected.push_back(std::string("plan.0.") + part);
      }
    }
    EXPECT_TRUE(content.metadata.contains("fingerprint"));
    EXPECT_THAT(names_of(content.tensors), testing::UnorderedElementsAreArray(expected));
  }
}

TEST(Checkpoint, AFinishedRunGoesOnWithMoreSteps) {
  const Setting setting = settings()[2];
  SafeTensors last;
  TrainHooks hooks;
  hooks.checkpoint = [&](const SafeTensors& content) { last = content; };
  nn::Mlp net = small_network(4, 1, 9, torch::kFloat32);
  Trainer(net, data_for(setting), setting.options).run(hooks);
  TrainOptions more = setting.options;
  more.steps = 30;
  Trainer resumed(net, data_for(setting), more);
  resumed.restore(last);
  resumed.run();
  nn::Mlp whole = small_network(4, 1, 9, torch::kFloat32);
  Trainer(whole, data_for(setting), more).run();
  EXPECT_TRUE(test::same_bits(test::parameters_of(net), test::parameters_of(whole)));
}

SafeTensors last_checkpoint(const Setting& setting) {
  SafeTensors last;
  TrainHooks hooks;
  hooks.checkpoint = [&](const SafeTensors& content) { last = content; };
  nn::Mlp net = setting.network(9);
  Trainer(net, data_for(setting), setting.options).run(hooks);
  return last;
}

TEST(Checkpoint, RefusesAnotherRunByName) {
  const Setting base = settings()[2];  // cdt
  const SafeTensors content = last_checkpoint(base);
  const auto refusal = [&](TrainData data, TrainOptions options, nn::Activation activation) {
    nn::MlpOptions shape;
    shape.inputs = 4;
    shape.hidden = {24, 24};
    shape.outputs = 1;
    shape.activation = activation;
    nn::Mlp net(shape, 1, torch::kFloat32);
    const auto before = test::parameters_of(net);
    Trainer trainer(net, std::move(data), options);
    try {
      trainer.restore(content);
    } catch (const InvalidArgument& error) {
      EXPECT_TRUE(test::same_bits(test::parameters_of(net), before));
      return std::string(error.what());
    }
    return std::string();
  };
  const auto with = [&](auto change) {
    TrainData data = data_for(base);
    TrainOptions options = base.options;
    change(data, options);
    return refusal(std::move(data), options, nn::Activation::kTanh);
  };
  EXPECT_EQ(with([](auto&, auto&) {}), "");
  EXPECT_EQ(with([](auto&, auto& o) {
              o.steps = 50;
              o.stop_loss = 1e-3;
              o.plateau = 5;
              o.max_seconds = 9;
              o.memory_bytes *= 2;
            }),
            "");
  EXPECT_THAT(with([](auto& d, auto&) { d.x = d.x.flip(0); }), HasSubstr("training inputs x"));
  EXPECT_THAT(with([](auto& d, auto&) { d.y = 2 * d.y; }), HasSubstr("training labels y"));
  EXPECT_THAT(with([](auto& d, auto&) { d.x_val = 2 * d.x_val; }), HasSubstr("validation inputs"));
  EXPECT_THAT(with([](auto& d, auto&) { d.sample_weights = torch::linspace(1, 2, 20); }),
              HasSubstr("sample weights"));
  EXPECT_THAT(with([](auto&, auto& o) { o.p = 0.2; }), HasSubstr("p: 0.1, here: 0.2"));
  EXPECT_THAT(with([](auto&, auto& o) { o.q = 2; }), HasSubstr("q: 1.0, here: 2.0"));
  EXPECT_THAT(with([](auto&, auto& o) { o.learning_rate = 0.5; }),
              HasSubstr("learning rate: automatic, here: 0.5"));
  EXPECT_THAT(with([](auto&, auto& o) { o.loss = loss::sse(); }),
              HasSubstr("loss: mse, here: sse"));
  EXPECT_THAT(with([](auto&, auto& o) { o.batch = 5; }), HasSubstr("batch: 0, here: 5"));
  EXPECT_THAT(with([](auto&, auto& o) { o.schedule.kind = Schedule::Kind::kInverse; }),
              HasSubstr("schedule: constant, here: inverse"));
  EXPECT_THAT(with([](auto&, auto& o) { o.weight_decay = 0.1; }), HasSubstr("weight decay"));
  // The same shapes, another function.
  EXPECT_THAT(refusal(data_for(base), base.options, nn::Activation::kRelu),
              HasSubstr("another model"));
  // Checkpoints of before say nothing of all this.
  SafeTensors old = content;
  old.metadata.erase("fingerprint");
  old.metadata.erase("probe");
  nn::Mlp net = small_network(4, 1, 1, torch::kFloat32);
  TrainOptions other = base.options;
  other.p = 0.2;
  EXPECT_NO_THROW(Trainer(net, data_for(base), other).restore(old));
}

/// The message; the trainer must be as before.
std::string refusal_of(const SafeTensors& content, const Setting& setting) {
  nn::Mlp other = setting.network(1);
  const auto before = test::parameters_of(other);
  Trainer trainer(other, data_for(setting), setting.options);
  try {
    trainer.restore(content);
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(test::same_bits(test::parameters_of(other), before));
    return error.what();
  }
  return "was not refused";
}

Setting setting_named(const std::string& name) {
  for (const Setting& setting : settings()) {
    if (setting.name == name) return setting;
  }
  throw InvalidArgument("no setting " + name);
}

TEST(Checkpoint, RefusesAnOptimizerThatLibTorchWouldExecute) {
  // Earlier versions handed these bytes to TorchScript's loader.
  for (const char* method : {"momentum", "adam", "lbfgs"}) {
    const Setting setting = setting_named(method);
    SafeTensors content = last_checkpoint(setting);
    content.tensors["optimizer"] = torch::zeros({1000}, torch::kUInt8);
    EXPECT_THAT(refusal_of(content, setting), HasSubstr("execute"));
  }
}

TEST(Checkpoint, RefusesTensorsAndNumbersThatCannotBe) {
  const Tensor nothing = torch::zeros({0});
  const Tensor bytes = torch::zeros({3}, torch::kUInt8);
  const Tensor cube = torch::zeros({2, 2, 2}, torch::kFloat64);
  for (const char* name : {"momentum", "adam", "lbfgs", "guarded batches", "kc and decay",
                           "decay of classes", "kc of classes", "patience"}) {
    const Setting setting = setting_named(name);
    const SafeTensors good = last_checkpoint(setting);
    for (const auto& [tensor, value] : good.tensors) {
      SCOPED_TRACE(std::string(name) + ": " + tensor);
      SafeTensors content = good;
      for (const Tensor& other : {nothing, bytes, cube}) {
        content.tensors[tensor] = other;
        EXPECT_NE(refusal_of(content, setting), "was not refused");
      }
      content.tensors.erase(tensor);
      EXPECT_NE(refusal_of(content, setting), "was not refused");
      if (tensor.find("eigen") == std::string::npos) continue;
      content.tensors[tensor] = value * NAN;
      EXPECT_NE(refusal_of(content, setting), "was not refused");
      content.tensors[tensor] = value.to(torch::kFloat32);
      EXPECT_NE(refusal_of(content, setting), "was not refused");
    }
    using nlohmann::json;
    const json state = json::parse(good.metadata.at("state"));
    const auto with = [&](const json& text) {
      SafeTensors content = good;
      content.metadata["state"] = text.dump();
      return content;
    };
    const auto flat = state.flatten();
    for (const auto& [path, value] : flat.items()) {
      SCOPED_TRACE(std::string(name) + ": " + path);
      json changed = state;
      changed[json::json_pointer(path)] = "x";
      EXPECT_NE(refusal_of(with(changed), setting), "was not refused");
      if (!value.is_number_integer() || path == "/best_step") continue;
      changed[json::json_pointer(path)] = -7;
      EXPECT_NE(refusal_of(with(changed), setting), "was not refused");
      changed[json::json_pointer(path)] = 0.5;
      EXPECT_NE(refusal_of(with(changed), setting), "was not refused");
    }
    SafeTensors content = good;
    content.metadata["history"] += "99,,,,,,0,0,0\n";
    EXPECT_THAT(refusal_of(content, setting), HasSubstr("history"));
  }
}

TEST(Checkpoint, RefusesWhatIsNotItsOwn) {
  const Setting setting = settings()[3];
  const SafeTensors good = last_checkpoint(setting);
  const auto refused = [&](auto change, TrainOptions options) -> std::string {
    SafeTensors content = good;
    change(content);
    Setting other = setting;
    other.options = options;
    return refusal_of(content, other);
  };
  EXPECT_THAT(refused([](auto& c) { c.metadata.clear(); }, setting.options),
              HasSubstr("cdt-checkpoint-1"));
  EXPECT_THAT(refused([](auto& c) { c.metadata["state"] = "{"; }, setting.options),
              HasSubstr("state"));
  EXPECT_THAT(refused([](auto& c) { c.tensors.erase("parameters.1"); }, setting.options),
              HasSubstr("parameters.1"));
  EXPECT_THAT(
      refused([](auto& c) { c.tensors["parameters.1"] = torch::zeros({3}); }, setting.options),
      HasSubstr("another model"));
  EXPECT_THAT(refused([](auto& c) { c.tensors.erase("plan.0.kernel"); }, setting.options),
              HasSubstr("kernel"));
  EXPECT_THAT(refused([](auto& c) { c.tensors["plan.0.kernel"][0][1] += 1; }, setting.options),
              HasSubstr("symmetric"));
  TrainOptions other = setting.options;
  other.method = "gd";
  EXPECT_THAT(refused([](auto&) {}, other), HasSubstr("got guarded"));
}

}  // namespace
}  // namespace cdt::train
