/// All options of a training run: those of `cdt train`, as types.
#pragma once

#include <cdt/study/options.h>
#include <cdt/train/options.h>
#include <cdt/train/ranks.h>

#include <filesystem>
#include <set>

namespace cdt::study {

/// Default training options; stops at a training loss of 10⁻⁶.
inline train::TrainOptions usual_training() {
  train::TrainOptions training;
  training.stop_loss = 1e-6;
  return training;
}

struct RunOptions {
  /// `classes` follows from the loss, `is_pictures` from the file. `goal` is that of `cdt train`,
  /// by default prediction of new rows for tables.
  study::DataOptions data;
  study::NetworkOptions network;
  train::TrainOptions training = usual_training();  ///< its seed is also that of rows and network
  bool analysis = true;                             ///< run the pre-flight before training
  /// Takes rate, p and stopping step from the forecast of the analysis, unless they are given.
  bool tune = false;
  /// Goal predict: number of networks whose predictions are averaged. Default:
  /// chosen by study::usual_plan.
  std::optional<int64_t> ensemble;
  int64_t folds = 0;  ///< likewise: folds, each held out in turn; 0: default of study::Learner
  bool refit = true;  ///< likewise: train on all rows up to the point that held-out rows select
  bool importance = false;  ///< likewise: compute the importance of columns
  bool intervals = true;    ///< likewise: save the data for `cdt predict --interval`
  bool csv_safe = false;    ///< makes predictions.csv safe for spreadsheets, see data::csv_field
  torch::Device device = torch::kCPU;
  /// Whether training may round products to TF32 on a GPU. Only for the record; kernel::allow_tf32
  /// sets it.
  bool tf32 = false;
  /// Number of threads to keep; 0: unspecified. torch::set_num_threads sets it.
  int threads = 0;

  /// Ranks that train together, each with the same options and a share of the rows. The first
  /// writes the folder.
  std::shared_ptr<const train::Ranks> ranks = train::alone();

  std::filesystem::path folder;  ///< empty: the first unused of run1, run2, …
  bool resume = false;           ///< continues the run in the folder
  bool overwrite = false;        ///< replaces it

  /// Names of settings (cdt/study/settings.h) given by the user even if equal to the default:
  /// run.json lists them as given, and tuning does not change them. Other values count as given
  /// without being named.
  std::set<std::string> given;
};

}  // namespace cdt::study
