#include <cdt/kernel/record/own_memory.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cdt::kernel {

using torch::Tensor;

bool entries_share_memory(const Tensor& tensor) {
  if (tensor.numel() < 2 || tensor.layout() != torch::kStrided) return false;
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride and size, the shortest first
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) dimensions.emplace_back(tensor.stride(d), tensor.size(d));
  }
  std::ranges::sort(dimensions);
  if (dimensions.front().first == 0) return true;
  int64_t reach = 0;
  bool apart = true;
  for (const auto& [stride, size] : dimensions) {
    apart = apart && stride > reach;
    reach += stride * (size - 1);
  }
  if (apart) return false;
  // Strides interleave: compare the addresses themselves.
  Tensor places = torch::zeros({}, torch::kInt64);
  for (const auto& [stride, size] : dimensions) {
    places = (places.unsqueeze(-1) + stride * torch::arange(size)).reshape({-1});
  }
  return std::get<0>(at::_unique2(places)).numel() < places.numel();
}

void require_own_memory(const Model& model) {
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const Tensor& p = model.parameters()[i];
    CDT_REQUIRE(!entries_share_memory(p), "parameter ", i, " of shape ", p.sizes(),
                " cannot be moved: its entries share memory (an expanded view?); clone() gives "
                "each its own");
  }
}

}  // namespace cdt::kernel
