#include <cdt/core/check.h>
#include <cdt/train/feedback.h>

namespace cdt::train {

using torch::Tensor;

ModalFeedback::ModalFeedback(dynamics::Modes modes) : modes_(std::move(modes)) {
  dynamics::require_complete(modes_, "feedback in modes");
  modes_.vectors = modes_.vectors.t().contiguous().t();
}

dynamics::Modes ModalFeedback::effective_modes() const {
  dynamics::Modes effective = modes_;
  if (ridge_ > 0) effective.values = modes_.values + ridge_;
  return effective;
}

int64_t ModalFeedback::bytes() const { return static_cast<int64_t>(modes_.vectors.nbytes()); }

void ModalFeedback::save(SavedState& state) const {
  state.tensors["eigenvalues"] = modes_.values;
  state.tensors["eigenvectors"] = modes_.vectors;
  state.values["rank"] = modes_.rank;
  state.values["rank_tolerance"] = modes_.rank_tolerance;
  state.values["smallest"] = modes_.smallest;
}

dynamics::Modes ModalFeedback::saved_modes(const SavedState& state, torch::Device device) {
  dynamics::Modes modes;
  modes.values = state.tensor("eigenvalues").to(device);
  modes.vectors = state.tensor("eigenvectors").to(device);
  const int64_t n = modes.values.size(0);
  require_shape(modes.vectors, {n, n}, "eigenvectors");
  modes.rank = state.count("rank");
  modes.rank_tolerance = state.number("rank_tolerance");
  modes.smallest = state.number("smallest");
  return modes;
}

}  // namespace cdt::train
