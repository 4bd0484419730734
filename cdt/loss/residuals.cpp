#include <cdt/loss/residuals.h>

namespace cdt::loss {

using torch::Tensor;

Tensor Residuals::to_outputs(const Tensor& u) const {
  const Tensor by_sample = u.to(torch::kFloat64).view({S.size(0), S.size(2)});
  if (D.defined()) return (scale * by_sample).mm(D.t()).reshape({-1});
  return S.matmul(by_sample.unsqueeze(2)).reshape({-1});
}

Tensor Residuals::to_residuals(const Tensor& v) const {
  const Tensor by_sample = v.to(torch::kFloat64).view({S.size(0), S.size(1)});
  if (D.defined()) return (scale * by_sample.mm(D)).reshape({-1});
  return S.transpose(1, 2).matmul(by_sample.unsqueeze(2)).reshape({-1});
}

Residuals Residuals::of_samples(const Tensor& rows) const {
  Residuals some;
  some.S = S.index_select(0, rows);
  some.e = e.view({S.size(0), -1}).index_select(0, rows).reshape({-1});
  some.D = D;
  if (scale.defined()) some.scale = scale.index_select(0, rows);
  some.all_one = all_one;
  return some;
}

Tensor times_blocks(const Tensor& X, const Tensor& blocks) {
  const int64_t r = blocks.size(0);
  const Tensor pieces = X.reshape({X.size(0), r, -1}).transpose(0, 1);  // [r, m, C]
  return torch::bmm(pieces, blocks).transpose(0, 1).reshape({X.size(0), -1});
}

}  // namespace cdt::loss
