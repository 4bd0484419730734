/// Kernels of one model and shape that a GPU computes again and again.
#pragma once

#include <cdt/kernel/check/checked_factors.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/playback.h>
#include <cdt/kernel/replay/unpromised.h>

#include <memory>
#include <optional>
#include <vector>

namespace cdt::kernel {

/// Θ(x, x) of one block, with its checks pending in `source`.
/// @throws StalePlan if it takes several blocks.
Ntk unsettled_ntk(CheckedFactors& source, const torch::Tensor& x, const NtkOptions& options);

/// A kernel as a sequence of operations (playback.h): on inputs of its own, at the parameters where
/// they are. Its checks are made each time.
class RecordedKernel {
 public:
  RecordedKernel(const Model& model, const torch::Tensor& x, const NtkOptions& options,
                 int64_t width);

  /// Whether it is of this shape, and the parameters are still where they were.
  bool fits(const Model& model, const torch::Tensor& x, const NtkOptions& options) const;
  /// @throws as empirical_ntk, and RefutedRule or StalePlan where that would try something else.
  Ntk kernel(const torch::Tensor& x);
  /// Whether it turned out that the model cannot be recorded.
  bool unfit() const { return playback_->gave_up(); }

 private:
  void assemble();
  Comparison with_autograd() const;
  bool checked() const { return options_.replay == NtkOptions::Replay::kChecked; }

  NtkOptions options_;
  OutsideTensors outside_;
  Model plain_;  ///< the model
  Model model_;  ///< the same, as it is recorded
  torch::Tensor x_;
  std::vector<torch::Tensor> parameters_;  ///< as they were: where they lie, and in which shape
  FactorOptions factor_options_;
  std::unique_ptr<CheckedFactors> source_;
  Ntk found_;
  std::unique_ptr<Playback> playback_;
};

/// The kernel by the model's recording, where it may be replayed, lies on a GPU and has been seen
/// before in this shape; none: it has to be made.
std::optional<Ntk> replayed_ntk(const Model& model, const torch::Tensor& x,
                                const NtkOptions& options);

}  // namespace cdt::kernel
