#include <cdt/kernel/live_site.h>
#include <cdt/kernel/sizes.h>

namespace cdt::kernel {

using torch::Tensor;

std::vector<int64_t> sample_dimensions(const Site& site, int64_t samples) {
  const std::vector<int64_t>& shape = site.output_shape;
  std::vector<int64_t> dimensions;
  if (!shape.empty() && shape[0] % samples == 0) dimensions.push_back(0);
  for (int64_t d = 1; d < static_cast<int64_t>(shape.size()); ++d) {
    if (shape[d] == samples && site.samples_may_lie_along(d)) dimensions.push_back(d);
  }
  return dimensions;
}

Tensor by_sample(const Tensor& gradients, int64_t sample_dimension, int64_t samples) {
  if (sample_dimension > 0) return gradients.movedim(sample_dimension + 1, 0).unsqueeze(2);
  std::vector<int64_t> shape = gradients.sizes().vec();
  shape[1] /= samples;
  shape.insert(shape.begin() + 1, samples);
  return gradients.reshape(shape).transpose(0, 1);
}

void LiveSite::lay_along(int64_t dimension) {
  const Tensor by_output = sample_dimension > 0
                               ? gradient.squeeze(2).movedim(0, sample_dimension + 1).contiguous()
                               : gradient.transpose(0, 1).flatten(1, 2);
  gradient = by_sample(by_output, dimension, gradient.size(0));
  sample_dimension = dimension;
}

Tensor LiveSite::excess(const Tensor& v, const Tensor& under_v, double tolerance) const {
  const int64_t samples = gradient.size(0);
  const int64_t width = gradient.size(1);
  const Tensor parts = gradient.reshape({samples, width, -1});
  const Tensor weights = v.view({samples, 1, width});
  const Tensor promised = width == 1 ? parts * weights : torch::bmm(weights, parts);
  const Tensor actual =
      by_sample(under_v.reshape(site->output_shape).unsqueeze(0), sample_dimension, samples);
  const Tensor largest_part =
      (largest_of_each(parts.flatten(0, 1)).view({samples, width}) * v.view({samples, width}).abs())
          .amax(1);
  // Sample by sample, each against its own size: a large one must not hide the others.
  return largest_of_each(promised - actual.reshape(promised.sizes()))
      .sub_(largest_part, tolerance * static_cast<double>(width));
}

}  // namespace cdt::kernel
