// A table in memory to a model that predicts, and the model as bytes.
#include <cdt/core/error.h>
#include <cdt/data/rows/rows.h>
#include <cdt/study/pipeline.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

data::Table line(int64_t rows, bool log = false) {
  std::string text = "x,kind,y\n";
  for (int64_t i = 0; i < rows; ++i) {
    const double x = std::fmod(0.37 * static_cast<double>(i), 4.0) - 2;
    const double y = x + (i % 2 == 0 ? 1.0 : 0.0);
    text += c10::str(x, i % 2 == 0 ? ",even," : ",odd,", log ? std::exp(2 * y) : y, "\n");
  }
  return data::parse_csv(text, "line.csv");
}

RunOptions small() {
  RunOptions options;
  options.data.goal = Goal::kPredict;
  options.data.targets = {"y"};
  options.network.hidden = {8};
  options.ensemble = 2;
  return options;
}

Tensor predictions(const TrainedModel& model, const data::Table& table) {
  const data::TableSamples samples(table, model.preprocess, data::TableSamples::Labels::kNone);
  return predict_targets(model.predictor, model.preprocess, samples, "test");
}

TEST(LearnTable, PredictsATableInMemory) {
  const data::Table table = line(80);
  const auto learned = learn(table, small());
  EXPECT_EQ(learned.decision.learn->members, 2);
  // Beside them the walks, and a line where it has a say.
  const bool line = has_line(learned.predictor);
  EXPECT_EQ(learned.predictor.members.size(), line ? 5U : 4U);
  const Tensor gap = predictions(learned.model(), table).squeeze(1) -
                     torch::tensor(table.at("y").numbers.to_vector(), torch::kFloat64);
  EXPECT_LT(gap.abs().max().item<double>(), 0.3);
  ASSERT_EQ(learned.record.prediction->expected.size(), 1U);
  EXPECT_GT(learned.record.prediction->expected[0].mean_rmse, 1);
  EXPECT_LT(learned.record.prediction->expected[0].rmse.value, 0.2);
  RunOptions fit = small();
  fit.data.goal = Goal::kFit;
  EXPECT_THROW(learn(table, fit), InvalidArgument);
}

TEST(LearnTable, DoesNotSeeTheOrderOfRows) {
  const data::Table table = line(60);
  std::vector<int64_t> order = data::sample_rows(60, 60, 5);
  const auto one = learn(table, small());
  const auto other = learn(data::take_rows(table, order), small());
  EXPECT_TRUE(torch::equal(predictions(one.model(), table), predictions(other.model(), table)));
}

TEST(LearnTable, KnowsIdentifiersByTheOrderThatCame) {
  data::Table table = line(60);
  data::Column counts;
  counts.name = "n";
  for (int i = 0; i < 60; ++i) counts.numbers.push_back(i);
  table.columns.insert(table.columns.begin(), counts);
  const auto left = learn(table, small());
  ASSERT_FALSE(left.notes.empty());
  EXPECT_NE(left.notes[0].find("n: left out, an identifier"), std::string::npos) << left.notes[0];
  // The same numbers in another order count nothing, although sorting the rows makes them.
  std::vector<double> shuffled = table.columns[0].numbers.to_vector();
  std::reverse(shuffled.begin(), shuffled.begin() + 7);
  table.columns[0].numbers = shuffled;
  const auto kept = learn(table, small());
  EXPECT_EQ(kept.problem.preprocess.features[0].name, "n");
}

/// Noise that comes three times: nothing is learned of it by heart, and nothing is promised.
TEST(LearnTable, RowsThatRepeatAreNoNewOnes) {
  torch::manual_seed(1);
  const auto table_of = [](const Tensor& x, const Tensor& y) {
    data::Table table;
    table.source = "noise";
    for (int64_t i = 0; i < y.size(0); ++i) table.lines.push_back(i + 1);
    for (int64_t j = 0; j <= 3; ++j) {
      const Tensor values = (j < 3 ? x.select(1, j) : y).contiguous();
      const auto* first = values.data_ptr<double>();
      data::Column& column = table.columns.emplace_back();
      column.name = j < 3 ? c10::str("x", j) : "y";
      column.numbers = std::vector<double>(first, first + values.numel());
    }
    return table;
  };
  const auto noise = [](auto... sizes) { return torch::randn({sizes...}, torch::kFloat64); };
  const Tensor x = noise(60, 3), y = noise(60);
  RunOptions options = small();
  options.network.hidden = {64};
  options.ensemble = 4;
  const auto learned = learn(table_of(x.repeat({3, 1}), y.repeat({3})), options);
  EXPECT_LT(learned.record.prediction->expected.at(0).r2,
            0.3);  // 0.9 where copies are on both sides
  // Half of them where the walks of an activation that errs much more are left out.
  EXPECT_THAT(learned.record.prediction->expected.at(0).different, testing::AnyOf(30, 60));
  EXPECT_EQ(learned.record.prediction->expected.at(0).rows,
            3 * learned.record.prediction->expected.at(0).different);
  EXPECT_NE(learned.notes.at(0).find("120 of 180 rows repeat"), std::string::npos);
  const Tensor fresh = noise(400, 3), truth = noise(400);
  const data::Table table = table_of(fresh, truth);
  const double rmse = (predictions(learned.model(), table).squeeze(1) - truth)
                          .square()
                          .mean()
                          .sqrt()
                          .item<double>();
  const Estimate& expected = learned.record.prediction->expected[0].rmse;
  EXPECT_LT(std::abs(rmse - expected.value), 4 * expected.error);
  const auto bounds = bounds_of(*learned.intervals, learned.predictor, learned.problem.preprocess,
                                learned.problem.preprocess.transform(table), 0.9);
  const Tensor held = (bounds.low.squeeze(1) <= truth).logical_and(truth <= bounds.high.squeeze(1));
  EXPECT_GT(held.to(torch::kFloat64).mean().item<double>(), 0.8);  // 0.0 with copies
}

TEST(LearnTable, StopsWhenAsked) {
  Hooks hooks;
  hooks.stop_requested = [] { return true; };
  const auto learned = learn(line(60), small(), hooks);
  EXPECT_EQ(learned.result.outcome, train::Outcome::kInterrupted);
  EXPECT_TRUE(learned.predictor.members.empty());
}

TEST(LearnTable, ModelsSurviveTheirBytes) {
  for (const bool classes : {false, true}) {
    SCOPED_TRACE(classes);
    const data::Table table = line(80, /*log=*/true);
    RunOptions options = small();
    if (classes) {
      options.data.targets = {"kind"};
      options.training.loss = loss::cross_entropy();
    }
    const TrainedModel model = learn(table, options).model();
    EXPECT_EQ(model.intervals.has_value(), !classes);
    EXPECT_EQ(model.preprocess.targets[0].log, !classes);
    const std::string bytes = dump_safetensors(to_safetensors(model), "model");
    const TrainedModel again = parse_trained_model(parse_safetensors(bytes, "again"), "again");
    EXPECT_TRUE(torch::equal(predictions(model, table), predictions(again, table)));
    EXPECT_EQ(dump_safetensors(to_safetensors(again), "model"), bytes);
    if (classes) continue;
    const Tensor x = model.preprocess.transform(table);
    const auto bounds = bounds_of(*again.intervals, again.predictor, again.preprocess, x, 0.8);
    EXPECT_TRUE(torch::equal(
        bounds.high, bounds_of(*model.intervals, model.predictor, model.preprocess, x, 0.8).high));
    // Of a log-normal: mean · √(e^σ² − 1), σ being what the interval of the logarithm shows.
    const Tensor deviations = deviations_of(*model.intervals, model.predictor, model.preprocess, x);
    const double root = model.intervals->residuals.square().mean().sqrt().item<double>();
    const double half = half_width(model.intervals->residuals.select(1, 0), 0.8);
    const auto around = bounds_of(*model.intervals, model.predictor, model.preprocess, x, 0.8);
    const Tensor sigma = (around.high / around.low).log() / 2 * (root / half);
    const Tensor expected = predictions(model, table) * sigma.square().expm1().sqrt();
    EXPECT_LT(((deviations - expected) / expected).abs().max().item<double>(), 1e-6);
  }
}

TEST(LearnTable, DamagedModelsAreRefused) {
  const SafeTensors sound = to_safetensors(learn(line(60), small()).model());
  EXPECT_NO_THROW(parse_trained_model(sound, "m"));
  const auto refuses = [&](const std::function<void(SafeTensors&)>& damage) {
    SafeTensors content = sound;
    damage(content);
    EXPECT_THROW(parse_trained_model(content, "m"), InvalidArgument);
  };
  for (const char* name : {"format", "members", "preprocess", "calibration", "m1.architecture"}) {
    SCOPED_TRACE(name);
    refuses([&](SafeTensors& content) { content.metadata.erase(name); });
  }
  const std::string more = std::to_string(1 + std::stoi(sound.metadata.at("members")));
  refuses([&](SafeTensors& content) { content.metadata["members"] = more; });
  refuses([](SafeTensors& content) { content.metadata["members"] = "100000000"; });
  refuses([](SafeTensors& content) { content.tensors.erase("m2.layers.0.weight"); });
  refuses([](SafeTensors& content) { content.tensors.erase("intervals.residuals"); });
  refuses([](SafeTensors& content) {
    content.metadata["calibration"] = R"({"temperature": 0, "targets": []})";
  });
  refuses([](SafeTensors& content) {
    content.metadata["calibration"] =
        R"({"temperature": 1, "targets": [{"low": 2, "high": 1, "factor": 1}]})";
  });
}

}  // namespace
}  // namespace cdt::study
