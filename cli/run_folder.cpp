#include "cli/run_folder.h"

#include <cdt/core/error.h>
#include <fmt/format.h>

#include "cli/classes.h"

namespace cdt::cli {

using torch::Tensor;
namespace fs = std::filesystem;

void RunFolder::create(bool overwrite) const {
  CDT_REQUIRE(!fs::exists(path_) || fs::is_directory(path_), path_.string(),
              ": expected a folder for the run, but it is a file");
  CDT_REQUIRE(overwrite || !fs::exists(run()), path_.string(),
              ": holds a run already; continue it with --resume, replace it with --overwrite, or "
              "choose another --out");
  std::error_code error;
  fs::create_directories(path_, error);
  CDT_REQUIRE(!error, "cannot create ", path_.string(), ": ", error.message());
}

void RunFolder::forget_results() const {
  for (const auto& file : {history(), model(), predictions(), checkpoint()}) {
    std::error_code error;
    fs::remove(file, error);
    CDT_REQUIRE(!error, "cannot replace ", file.string(), ": ", error.message());
  }
}

void RunFolder::require_run() const {
  CDT_REQUIRE(fs::is_directory(path_), path_.string(), ": expected the folder of a run");
  for (const auto& file : {model(), preprocess()}) {
    CDT_REQUIRE(fs::exists(file), path_.string(), ": expected a finished run, but it has no ",
                file.filename().string());
  }
}

fs::path next_free_folder() {
  for (int number = 1;; ++number) {
    const fs::path path = fmt::format("run{}", number);
    if (!fs::exists(path)) return path;
  }
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n ") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

nlohmann::ordered_json measure_errors(const data::Preprocess& preprocess, const Tensor& predictions,
                                      const Tensor& targets) {
  nlohmann::ordered_json errors;
  if (preprocess.has_classes()) {
    errors[preprocess.targets[0].name] = measure_classes(preprocess, predictions, targets);
    return errors;
  }
  for (size_t i = 0; i < preprocess.targets.size(); ++i) {
    const Tensor target = targets.select(1, static_cast<int64_t>(i));
    const Tensor gap = predictions.select(1, static_cast<int64_t>(i)) - target;
    const double spread = (target - target.mean()).square().mean().item<double>();
    const double square = gap.square().mean().item<double>();
    errors[preprocess.targets[i].name] = {
        {"rmse", std::sqrt(square)}, {"mae", gap.abs().mean().item<double>()}, {"r2", nullptr}};
    if (spread > 0) errors[preprocess.targets[i].name]["r2"] = 1 - square / spread;
  }
  return errors;
}

Tensor predict_targets(nn::Mlp model, const data::Preprocess& preprocess, const Tensor& features,
                       const std::string& source) {
  const torch::NoGradGuard no_graph;
  const auto options = model->weight(0).options().requires_grad(false);
  constexpr int64_t kRows = 1 << 16;  // at a time, so that a long file needs little memory
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < features.size(0); first += kRows) {
    const int64_t count = std::min(kRows, features.size(0) - first);
    const Tensor outputs =
        preprocess.to_original(model->forward(features.narrow(0, first, count).to(options)).cpu());
    parts.push_back(preprocess.has_classes() ? torch::softmax(outputs, 1) : outputs);
  }
  const Tensor predictions = torch::cat(parts);
  const Tensor broken = torch::isfinite(predictions).all(1).logical_not().nonzero();
  CDT_REQUIRE(
      broken.size(0) == 0, source, ", row ", broken[0][0].item<int64_t>() + 1,
      ": its prediction is not a finite number; a feature lies far outside the range of the "
      "training data");
  return predictions;
}

}  // namespace cdt::cli
