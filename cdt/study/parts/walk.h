/// Networks that advance along a path, or through epochs, concurrently; internal to this folder.
#pragma once

#include <cdt/nn/network.h>
#include <cdt/train/trainer.h>

#include <functional>

namespace cdt::study {

/// A network with its training rows and held-out rows.
struct Walk {
  nn::Network model;
  std::optional<train::Trainer> trainer;
  train::TrainData rows;      ///< training rows of this rank
  int64_t count = 0;          ///< number of rows over all ranks
  std::vector<int64_t> held;  ///< held-out rows and their data
  torch::Tensor x_held, y_held, held_weights;
  size_t kind = 0;             ///< index of its activation
  int64_t steps_a_point = 1;   ///< an epoch of an optimizer is one point
  bool over = false;           ///< no further point
  std::vector<double> decays;  ///< τ at each point; NaN if none

  /// Creates a trainer that runs for `points`, and stops for no other reason. Sets the count.
  void start(const train::TrainOptions& training, int64_t points);
  /// Advances by one point; returns the row of its first step, with the counts of all its steps.
  train::StepRecord advance();
  /// Outputs [h, n_L] for the held-out rows, float64.
  torch::Tensor held_outputs() const;
};

/// Distinct rows of all; a view if they are contiguous.
train::TrainData select_rows(const train::TrainData& all, const std::vector<int64_t>& rows);

/// Number of walks that run concurrently: the number of cores. One at a time on a GPU, and with
/// several ranks, which must all communicate in the same order.
size_t at_once(const std::vector<Walk>& walks, int cores);

/// Calls `work` with the index of each walk, on as many threads as run concurrently, each with its
/// share of the cores: threads that share small operations mostly wait for each other.
void side_by_side(const std::vector<Walk>& walks, int cores,
                  const std::function<void(size_t)>& work);

/// Advances all by one point, concurrently. Losses are those at the start of the point, averaged
/// over rows.
train::StepRecord advance(std::vector<Walk>& walks, int cores);

}  // namespace cdt::study
