/// A training run that takes only a moment.
#pragma once

#include <cdt/core/io/file.h>
#include <cdt/data/houses.h>
#include <cdt/run/options.h>
#include <torch/utils.h>

#include "support/temp_folder.h"

namespace cdt::test {

/// One hidden layer of `width` on a table of `rows` houses. Table and run are in `folder`; one
/// thread, no analysis.
inline run::Options small_run(const TempFolder& folder, int64_t rows, int64_t width) {
  torch::set_num_threads(1);
  run::Options options;
  options.data.file = (folder / "houses.csv").string();
  options.data.targets = {"price"};
  options.data.goal = study::Goal::kFit;
  options.network.hidden = {width};
  options.analysis = false;
  options.folder = folder / "run";
  write_file_atomically(options.data.file, {data::make_houses(rows, 1)});
  return options;
}

/// The same with plain descent and `steps` steps.
inline run::Options small_descent(const TempFolder& folder, int64_t rows, int64_t width,
                                  int64_t steps) {
  run::Options options = small_run(folder, rows, width);
  options.training.method = "gd";
  options.training.learning_rate = 0.01;
  options.training.steps = steps;
  return options;
}

}  // namespace cdt::test
