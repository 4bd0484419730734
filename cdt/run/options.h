/// Everything that decides a training run: what `cdt train` takes, in types.
#pragma once

#include <cdt/study/options.h>
#include <cdt/train/options.h>

#include <filesystem>
#include <set>

namespace cdt::run {

/// What training takes where nobody has chosen; it stops at a training loss of 10⁻⁶.
inline train::TrainOptions usual_training() {
  train::TrainOptions training;
  training.stop_loss = 1e-6;
  return training;
}

struct Options {
  study::DataOptions data;  ///< `classes` follows from the loss
  study::NetworkOptions network;
  train::TrainOptions training = usual_training();  ///< its seed is that of rows and network too
  bool analysis = true;                             ///< the pre-flight, before training
  /// Takes rate, p and stopping step from the forecast of the analysis, where they are not decided.
  bool tune = false;
  bool csv_safe = false;  ///< predictions.csv for spreadsheets, see data::csv_field
  torch::Device device = torch::kCPU;
  int threads = 0;  ///< for the record alone; torch::set_num_threads sets them

  std::filesystem::path folder;  ///< empty: the first of run1, run2, … that is free
  bool resume = false;           ///< goes on with the run in the folder
  bool overwrite = false;        ///< replaces it

  /// Names of settings (cdt/run/settings.h) that somebody has decided although they have their
  /// usual values: run.json lists them as given, and tuning leaves them alone. Those with other
  /// values count without being named.
  std::set<std::string> given;
};

}  // namespace cdt::run
