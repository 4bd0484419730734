/// The folder of a run (DESIGN section 5): what is in it, how it is written and read.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/preflight.h"

namespace cdt::cli {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  /// Creates the folder. @throws InvalidArgument if it holds a run already, unless `overwrite`.
  void create(bool overwrite) const;
  /// Removes what an earlier run left: history, model, predictions, spectrum, checkpoint, report.
  void forget_results() const;
  /// @throws InvalidArgument unless it holds a finished run.
  void require_run() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path run() const { return path_ / "run.json"; }
  std::filesystem::path history() const { return path_ / "history.csv"; }
  std::filesystem::path model() const { return path_ / "model.safetensors"; }
  std::filesystem::path preprocess() const { return path_ / "preprocess.json"; }
  std::filesystem::path predictions() const { return path_ / "predictions.csv"; }
  std::filesystem::path spectrum() const { return path_ / "spectrum.csv"; }
  std::filesystem::path report() const { return path_ / "report.html"; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint.safetensors"; }

 private:
  std::filesystem::path path_;
};

/// The first of run1, run2, … that does not exist.
std::filesystem::path next_free_folder();

/// A field as CSV wants it: quoted where it must be.
std::string csv_field(const std::string& text);

/// How far predictions [r, t] lie from targets [r, t], both in units of the file: per target
/// {"rmse", "mae", "r2"}; r2 is null for a constant target. Of classes as measure_classes.
nlohmann::ordered_json measure_errors(const data::Preprocess& preprocess,
                                      const torch::Tensor& predictions,
                                      const torch::Tensor& targets);

/// The network's predictions for features [r, f], in units of the file [r, t], float64; of classes
/// their probabilities [r, C].
/// @throws InvalidArgument, naming `source`, if one is not finite.
torch::Tensor predict_targets(const nn::Network& model, const data::Preprocess& preprocess,
                              const torch::Tensor& features, const std::string& source);

/// predictions.csv: targets and predictions of the rows that trained and validated.
void write_predictions(const RunFolder& folder, const Problem& problem);

/// spectrum.csv: the modes of the kernel before training, and what a step of gradient descent and
/// of controlled descent does to them at the rate of the analysis.
void write_spectrum(const RunFolder& folder, const Findings& findings);

/// report.html, from the other files of the folder. A failure is a warning: the run is done.
void write_report(const RunFolder& folder);

}  // namespace cdt::cli
