/// Networks on their way along a path, or through epochs, side by side; for the sources of this
/// folder.
#pragma once

#include <cdt/nn/network.h>
#include <cdt/train/trainer.h>

#include <functional>

namespace cdt::study {

/// One network, the rows that it sees and those that it does not.
struct Walk {
  nn::Network model;
  std::optional<train::Trainer> trainer;
  train::TrainData rows;      ///< of this rank
  int64_t count = 0;          ///< of rows of all ranks
  std::vector<int64_t> held;  ///< rows held out, and what there is of them
  torch::Tensor x_held, y_held, held_weights;
  size_t kind = 0;             ///< which activation it has
  int64_t steps_a_point = 1;   ///< an epoch of an optimizer is a point
  bool over = false;           ///< there is no point behind this one
  std::vector<double> decays;  ///< τ by point; NaN where there is none

  /// Starts it: a trainer that goes on for `points`, and stops for nothing else. Sets the count.
  void start(const train::TrainOptions& training, int64_t points);
  /// A point further: the row of its first step, with the counts of all its steps.
  train::StepRecord advance();
  /// [h, n_L] of the rows held out, float64.
  torch::Tensor held_outputs() const;
};

/// Rows of all, each once; a view of them where they follow each other.
train::TrainData select_rows(const train::TrainData& all, const std::vector<int64_t>& rows);

/// How many of the walks go at the same time: as many as there are cores. Of several ranks, who all
/// must send the same in the same order, and on a GPU, one after another.
size_t at_once(const std::vector<Walk>& walks, int cores);

/// Calls `work` with the number of each walk, on threads of as many as go at once, each with its
/// share of the cores: threads that share small operations mostly wait for each other.
void side_by_side(const std::vector<Walk>& walks, int cores,
                  const std::function<void(size_t)>& work);

/// A point further with all of them, side by side. Losses are of where the point starts, in the
/// mean over rows.
train::StepRecord advance(std::vector<Walk>& walks, int cores);

}  // namespace cdt::study
