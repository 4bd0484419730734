#include <cdt/core/error.h>
#include <cdt/train/feedback.h>

namespace cdt::train {

using torch::Tensor;

ModalFeedback::ModalFeedback(dynamics::Modes modes) : modes_(std::move(modes)) {
  dynamics::require_complete(modes_, "feedback in modes");
  modes_.vectors = modes_.vectors.t().contiguous().t();
}

control::Plant ModalFeedback::plant(double rate, double factor) const {
  return control::Plant::of_modes(modes_,
                                  {.gradient_factor = 1, .rate = rate * factor, .decay = ridge_});
}

control::Certificate ModalFeedback::certificate(const Tensor& theta) const {
  if (!controller_) return {};
  control::Certificate found =
      controller_->certificate(theta.defined() ? kernel_of_state(theta) : theta);
  found.rate = rate_;
  if (ridge_ > 0) found.controller += ", weight decay within";
  return found;
}

int64_t ModalFeedback::bytes() const { return static_cast<int64_t>(modes_.vectors.nbytes()); }

void ModalFeedback::save(SavedState& state) const {
  state.tensors["eigenvalues"] = modes_.values;
  state.tensors["eigenvectors"] = modes_.vectors;
  state.values["rank"] = modes_.rank;
  state.values["rank_tolerance"] = modes_.rank_tolerance;
  state.values["smallest"] = modes_.smallest;
}

bool ModalFeedback::is_saved(const SavedState& state) {
  return state.tensors.contains("eigenvectors");
}

dynamics::Modes ModalFeedback::saved_modes(const SavedState& state, int64_t n,
                                           torch::Device device) {
  dynamics::Modes modes;
  modes.values = state.tensor("eigenvalues", {n}).to(device);
  modes.vectors = state.tensor("eigenvectors", {n, n}).to(device);
  modes.rank = state.count("rank");
  modes.rank_tolerance = state.non_negative("rank_tolerance");
  modes.smallest = state.number("smallest");
  CDT_REQUIRE(modes.rank <= n, "the checkpoint's rank must be at most ", n, ", got ", modes.rank);
  CDT_REQUIRE(modes.values.diff().ge(0).all().item<bool>() &&
                  modes.values.narrow(0, 0, modes.nullity()).eq(0).all().item<bool>() &&
                  modes.reachable_values().gt(0).all().item<bool>(),
              "the checkpoint's eigenvalues must ascend, from as many zeros as the rank leaves");
  return modes;
}

}  // namespace cdt::train
