/// The samples of a training run.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>
#include <cdt/train/options.h>
#include <cdt/train/ranks.h>

namespace cdt::train {

struct TrainData {
  torch::Tensor x;  ///< [r, …]; integers for models that use them as indices (embeddings)
  /// [r, n_L]; for the cross entropy, distributions over classes. Also accepted: labels [r] for a
  /// model with one output; class numbers [r] from 0, of an integer dtype, for the cross entropy.
  torch::Tensor y;
  torch::Tensor x_val;  ///< undefined: no validation
  torch::Tensor y_val;
  torch::Tensor sample_weights;  ///< [r], in the controller's Q; undefined: all 1
  torch::Tensor output_weights;  ///< [n_L], likewise
  torch::Tensor val_weights;     ///< [r_val], weights of the validation samples in their loss
  /// The processes that train together. Each rank has its own training samples (r ≥ 1); all ranks
  /// have the same validation samples.
  std::shared_ptr<const Ranks> ranks = alone();
};

/// Returns this rank's share of data that every rank has.
/// @throws InvalidArgument if there are fewer samples than ranks.
TrainData own_rows(TrainData all);

/// Checks the data and converts them for the training loop: inputs to the model's dtype (integers
/// are kept), labels to [r, n_L] and weights to float64.
/// @throws InvalidArgument if shapes, dtypes or devices do not fit, entries are not finite, or the
///   options need data that are missing or have no use for those given.
TrainData prepare(TrainData data, const kernel::Model& model, const TrainOptions& options);

}  // namespace cdt::train
