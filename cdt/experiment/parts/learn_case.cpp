#include <cdt/experiment/parts/learn_case.h>
#include <cdt/study/pipeline.h>

#include <algorithm>

namespace cdt::experiment {
namespace {

using torch::Tensor;

/// Errors of predictions in units of the file, and the loss of the comparison, on its scale.
struct Judgement {
  double loss = 0;
  study::Errors errors;
};
Judgement judge(const Plan& plan, const data::Preprocess& scale, const study::Predictor& predictor,
                const data::Preprocess& preprocess, const data::Table& table,
                const std::vector<int64_t>& rows) {
  const data::TableSamples samples(table, preprocess, rows, data::TableSamples::Labels::kNone);
  const Tensor predicted = study::predict_targets(predictor, preprocess, samples, table.source);
  Judgement found;
  found.errors =
      study::measure_errors(preprocess, predicted, preprocess.targets_in_units(table, rows));
  if (scale.has_classes()) {
    found.loss = std::get<study::ClassErrors>(found.errors[0].value).cross_entropy;
    return found;
  }
  Tensor scaled = predicted.clone();
  for (size_t t = 0; t < scale.targets.size(); ++t) {
    Tensor column = scaled.select(1, static_cast<int64_t>(t));
    if (scale.targets[t].log) column.log_();
    column.sub_(scale.targets[t].scale.offset).div_(scale.targets[t].scale.scale);
  }
  found.loss = dynamics::output_loss(plan.loss, scaled, scale.transform_targets(table, rows));
  return found;
}

}  // namespace

std::vector<TargetError> to_target_errors(const study::Errors& errors) {
  std::vector<TargetError> found;
  for (const auto& [target, value] : errors) {
    const auto* number = std::get_if<study::NumberErrors>(&value);
    found.push_back(
        {target, number == nullptr,
         number != nullptr ? number->rmse : 1 - std::get<study::ClassErrors>(value).accuracy});
  }
  return found;
}

std::optional<CaseRun> learn_to_predict(const Plan& plan, const Case& what,
                                        const data::Table& table, const study::Problem& compared,
                                        torch::Device device, const std::function<bool()>& stop) {
  study::RunOptions options = options_of(plan, what);
  options.device = device;
  std::vector<int64_t> rows = compared.split.train;
  std::sort(rows.begin(), rows.end());  // in file order
  study::Hooks hooks;
  hooks.stop_requested = stop;
  study::Pipeline pipeline(options, {}, hooks);
  const study::Run& made = pipeline.run();
  pipeline.prepare(table, rows);
  pipeline.train();
  const train::TrainResult& result = made.result;
  if (result.outcome == train::Outcome::kInterrupted) return std::nullopt;
  pipeline.calibrate();
  const auto of = [&](const std::vector<int64_t>& judged) {
    return judge(plan, compared.preprocess, made.predictor, made.problem.preprocess, table, judged);
  };
  const Judgement validation = of(compared.split.validation);

  CaseRun run;
  run.what = what;
  run.shape = made.problem.model->describe();
  run.outcome = train::to_string(result.outcome);
  run.steps = result.steps;
  run.lr = train::kUnknown;
  run.train_loss = of(compared.split.train).loss;
  run.val_loss = validation.loss;
  run.linearizations = result.linearizations;
  run.rejected = result.rejected;
  run.seconds = result.seconds;
  // Points are chosen on other scales, so the curve has only the final losses.
  run.step = {run.steps};
  run.train = {run.train_loss};
  run.val = {run.val_loss};
  run.refreshed = {run.linearizations};
  run.rejections = {run.rejected};
  run.errors = to_target_errors(validation.errors);
  return run;
}

}  // namespace cdt::experiment
