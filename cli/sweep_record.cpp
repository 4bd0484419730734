#include "cli/sweep_record.h"

#include <cdt/core/format.h>
#include <fmt/format.h>

#include <limits>

namespace cdt::cli {
namespace {

using nlohmann::ordered_json;

ordered_json list(const std::vector<double>& values) {
  ordered_json array = ordered_json::array();
  for (const double value : values) array.push_back(number_or_null(value));
  return array;
}

double number(const ordered_json& value) {
  return value.is_null() ? kUnknown : value.get<double>();
}

std::vector<double> numbers(const ordered_json& array) {
  std::vector<double> values;
  for (const auto& value : array) values.push_back(number(value));
  return values;
}

}  // namespace

std::string SweepCase::key() const {
  const std::string rate = lr > 0 ? fmt::format("-lr{}", lr) : "";
  return fmt::format("{}-{}{}-p{}-seed{}-steps{}", architecture, method, rate, p, seed, steps);
}

ordered_json to_json(const SweepRun& run) {
  ordered_json content{{"format", "cdt-sweep-run-1"},
                       {"architecture", run.what.architecture},
                       {"shape", run.shape},
                       {"method", run.what.method},
                       {"asked_lr", run.what.lr},
                       {"p", run.what.p},
                       {"seed", run.what.seed},
                       {"asked_steps", run.what.steps},
                       {"outcome", run.outcome},
                       {"steps", run.steps},
                       {"lr", number_or_null(run.lr)},
                       {"train_loss", number_or_null(run.train_loss)},
                       {"val_loss", number_or_null(run.val_loss)},
                       {"linearizations", run.linearizations},
                       {"rejected", run.rejected},
                       {"seconds", run.seconds},
                       {"operations", run.operations},
                       {"lambda_max", run.lambda_max},
                       {"lr_max", number_or_null(run.lr_max)},
                       {"reachable", run.reachable},
                       {"strictly_contracting", run.strictly_contracting},
                       {"curve",
                        {{"step", run.step},
                         {"train", list(run.train)},
                         {"val", list(run.val)},
                         {"refreshed", run.refreshed},
                         {"rejected", run.rejections}}},
                       {"final_error", list(run.final_error)},
                       {"row_norm", list(run.row_norm)}};
  if (run.what.details) {
    content["details"] = {{"preflight", run.preflight},
                          {"eigenvalues", list(run.eigenvalues)},
                          {"gain", list(run.gain)},
                          {"factor_gd", list(run.factor_gd)},
                          {"factor_cdt", list(run.factor_cdt)}};
  }
  if (run.what.traces) {
    ordered_json traces = ordered_json::array();
    for (const SampleTrace& trace : run.traces) {
      traces.push_back({{"sample", trace.sample},
                        {"label", trace.label},
                        {"outputs", list(trace.outputs)},
                        {"augmented", list(trace.augmented)}});
    }
    content["traces"] = {{"step", run.trace_step}, {"samples", traces}};
  }
  return content;
}

SweepRun parse_sweep_run(const ordered_json& content) {
  SweepRun run;
  run.what.architecture = content.at("architecture");
  run.what.method = content.at("method");
  run.what.lr = content.at("asked_lr");
  run.what.p = content.at("p");
  run.what.seed = content.at("seed");
  run.what.steps = content.at("asked_steps");
  run.shape = content.at("shape");
  run.outcome = content.at("outcome");
  run.steps = content.at("steps");
  run.lr = number(content.at("lr"));
  run.train_loss = number(content.at("train_loss"));
  run.val_loss = number(content.at("val_loss"));
  run.linearizations = content.at("linearizations");
  run.rejected = content.at("rejected");
  run.seconds = content.at("seconds");
  run.operations = content.at("operations");
  run.lambda_max = content.at("lambda_max");
  run.lr_max = number(content.at("lr_max"));
  run.reachable = content.at("reachable");
  run.strictly_contracting = content.at("strictly_contracting");
  const ordered_json& curve = content.at("curve");
  run.step = curve.at("step").get<std::vector<int64_t>>();
  run.train = numbers(curve.at("train"));
  run.val = numbers(curve.at("val"));
  run.refreshed = curve.at("refreshed").get<std::vector<int64_t>>();
  run.rejections = curve.at("rejected").get<std::vector<int64_t>>();
  run.final_error = numbers(content.at("final_error"));
  run.row_norm = numbers(content.at("row_norm"));
  if (content.contains("details")) {
    const ordered_json& details = content.at("details");
    run.what.details = true;
    run.preflight = details.at("preflight");
    run.eigenvalues = numbers(details.at("eigenvalues"));
    run.gain = numbers(details.at("gain"));
    run.factor_gd = numbers(details.at("factor_gd"));
    run.factor_cdt = numbers(details.at("factor_cdt"));
  }
  if (content.contains("traces")) {
    run.what.traces = true;
    run.trace_step = content.at("traces").at("step").get<std::vector<int64_t>>();
    for (const auto& trace : content.at("traces").at("samples")) {
      run.traces.push_back({trace.at("sample"), trace.at("label"), numbers(trace.at("outputs")),
                            numbers(trace.at("augmented"))});
    }
  }
  return run;
}

}  // namespace cdt::cli
