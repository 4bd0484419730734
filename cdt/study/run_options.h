/// Everything that decides a training run: what `cdt train` takes, in types.
#pragma once

#include <cdt/study/options.h>
#include <cdt/train/options.h>
#include <cdt/train/ranks.h>

#include <filesystem>
#include <set>

namespace cdt::study {

/// Default options of training; it stops at a training loss of 10⁻⁶.
inline train::TrainOptions usual_training() {
  train::TrainOptions training;
  training.stop_loss = 1e-6;
  return training;
}

struct RunOptions {
  /// `classes` follows from the loss, `is_pictures` from the file; `goal` says what the run is for:
  /// as of `cdt train`, new rows of a table unless told otherwise.
  study::DataOptions data;
  study::NetworkOptions network;
  train::TrainOptions training = usual_training();  ///< its seed is that of rows and network too
  bool analysis = true;                             ///< the pre-flight, before training
  /// Takes rate, p and stopping step from the forecast of the analysis, where they are not decided.
  bool tune = false;
  /// Goal predict: networks whose predictions are averaged. Default: study::usual_members.
  std::optional<int64_t> ensemble;
  int64_t folds = 0;  ///< likewise: parts of the rows, each held out in turn; 0: study::Learner's
  bool refit = true;  ///< likewise: train on all rows once held-out ones have picked the point
  bool importance = false;  ///< likewise: find out which columns matter
  bool intervals = true;    ///< likewise: keep what `cdt predict --interval` needs
  bool csv_safe = false;    ///< predictions.csv for spreadsheets, see data::csv_field
  torch::Device device = torch::kCPU;
  /// Whether training may round products to TF32 on a GPU, for the record alone;
  /// kernel::allow_tf32 sets it.
  bool tf32 = false;
  /// 0: not given. torch::set_num_threads sets them; here it says that they are to
  /// be kept.
  int threads = 0;

  /// Who trains with it, each with the same options and a share of the rows. The first of them
  /// writes the folder.
  std::shared_ptr<const train::Ranks> ranks = train::alone();

  std::filesystem::path folder;  ///< empty: the first of run1, run2, … that is free
  bool resume = false;           ///< goes on with the run in the folder
  bool overwrite = false;        ///< replaces it

  /// Names of settings (cdt/study/settings.h) that were given although they have their
  /// usual values: run.json lists them as given, and tuning leaves them alone. Those with other
  /// values count without being named.
  std::set<std::string> given;
};

}  // namespace cdt::study
