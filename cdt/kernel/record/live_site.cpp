#include <cdt/kernel/product/sizes.h>
#include <cdt/kernel/record/live_site.h>

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

Tensor excess_of(const std::vector<LiveSite>& sites, const Tensor& v,
                 const std::vector<Tensor>& under_v, double tolerance) {
  const int64_t samples = v.size(0);
  const int64_t width = v.size(1);
  const Tensor weights = v.view({samples, 1, width});
  // Sample by sample, each relative to its own size, so that a large one does not hide others.
  std::vector<Tensor> gaps, sizes;
  for (size_t k = 0; k < sites.size(); ++k) {
    const LiveSite& live = sites[k];
    const Tensor parts = live.gradient.reshape({samples, width, -1});
    sizes.push_back(largest_of_each(parts.flatten(0, 1)));
    if (!under_v[k].defined()) {
      gaps.push_back(torch::zeros({samples}, v.options()));
      continue;
    }
    const Tensor actual = by_sample(under_v[k].reshape(live.site->output_shape).unsqueeze(0),
                                    live.sample_dimension, samples)
                              .reshape({samples, 1, -1});
    gaps.push_back(largest_of_each(width == 1 ? torch::addcmul(actual, parts, weights, -1)
                                              : torch::baddbmm(actual, weights, parts, 1, -1)));
  }
  const Tensor largest_parts = (torch::stack(sizes).view({-1, samples, width}) * v.abs()).amax(2);
  return torch::stack(gaps).sub_(largest_parts, tolerance * static_cast<double>(width));
}

}  // namespace cdt::kernel
