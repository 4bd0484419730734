/// Recorded kernels of one model and shape, which a GPU replays.
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
/// @throws StalePlan if it needs several blocks.
Ntk unsettled_ntk(CheckedFactors& source, const torch::Tensor& x, const NtkOptions& options);

/// A kernel as a sequence of operations (playback.h), on its own copy of the inputs and the
/// parameters in place. Checked each time.
class RecordedKernel {
 public:
  RecordedKernel(const Model& model, const torch::Tensor& x, const NtkOptions& options,
                 int64_t width);

  /// Whether it has this shape, and the parameters are still at the same addresses.
  bool fits(const Model& model, const torch::Tensor& x, const NtkOptions& options) const;
  /// @throws as empirical_ntk, and RefutedRule or StalePlan where that would try an alternative.
  Ntk kernel(const torch::Tensor& x);
  /// Whether the model turned out not to be recordable.
  bool unfit() const { return playback_->gave_up(); }

 private:
  void assemble();
  Comparison with_autograd() const;
  bool checked() const { return options_.replay == NtkOptions::Replay::kChecked; }

  NtkOptions options_;
  OutsideTensors outside_;
  Model plain_;  ///< the model
  Model model_;  ///< the same model, as recorded
  torch::Tensor x_;
  std::vector<torch::Tensor> parameters_;  ///< as recorded: addresses and shapes
  FactorOptions factor_options_;
  std::unique_ptr<CheckedFactors> source_;
  Ntk found_;
  std::unique_ptr<Playback> playback_;
};

/// The kernel from the model's recording, if replay is enabled, the model is on a GPU and this
/// shape has occurred before; none: compute it.
std::optional<Ntk> replayed_ntk(const Model& model, const torch::Tensor& x,
                                const NtkOptions& options);

}  // namespace cdt::kernel
