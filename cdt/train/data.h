/// The samples of a training run.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>
#include <cdt/train/options.h>
#include <cdt/train/ranks.h>

namespace cdt::train {

struct TrainData {
  torch::Tensor x;  ///< [r, …]; whole numbers for models that look things up by them
  /// [r, n_L]; for the cross entropy a distribution over classes. Labels [r] will do for a model
  /// with one output, and class numbers [r] from 0 on, of a whole dtype, for the cross entropy.
  torch::Tensor y;
  torch::Tensor x_val;  ///< undefined: no validation
  torch::Tensor y_val;
  torch::Tensor sample_weights;  ///< [r] in the controller's Q; undefined: all 1
  torch::Tensor output_weights;  ///< [n_L], likewise
  torch::Tensor val_weights;     ///< [r_val] of validation samples, to judge by
  /// Who trains with it: of several ranks each has training samples of its own, r at least 1, and
  /// all the same validation samples.
  std::shared_ptr<const Ranks> ranks = alone();
};

/// Of data that every rank has, what this one trains with.
/// @throws InvalidArgument if there are fewer samples than ranks.
TrainData own_rows(TrainData all);

/// The same in the form in which the loop wants it: inputs in the model's dtype (whole numbers as
/// they are), labels [r, n_L] and weights in float64.
/// @throws InvalidArgument if shapes, dtypes or devices do not fit, entries are not finite, or the
///   options ask for what is not there or has no use.
TrainData prepare(TrainData data, const kernel::Model& model, const TrainOptions& options);

}  // namespace cdt::train
