#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/kernel/factor/backward.h>
#include <cdt/kernel/factor/jacobian.h>

namespace cdt::kernel {

using torch::Tensor;

JacobianRows jacobian_rows(const Model& model, const Tensor& x, const Tensor& together,
                           const std::vector<Tensor>& parameters, int64_t first_output,
                           int64_t outputs) {
  int64_t columns = 0;
  for (const Tensor& p : parameters) columns += p.numel();
  const int64_t samples = together.size(0);
  const int64_t width = together.size(1);
  const Tensor in_batch = together.detach();
  const Tensor one = torch::ones({1}, in_batch.options());
  JacobianRows result;
  result.rows = torch::zeros({samples * outputs, columns}, in_batch.options());
  for (int64_t i = 0; i < samples; ++i) {
    const Tensor alone = evaluate(model, x.narrow(0, i, 1));
    CDT_REQUIRE(alone.size(1) == width, "sample ", i, " gives ", alone.size(1),
                " outputs when evaluated alone and ", width, " in the batch");
    const double gap = (alone.detach() - in_batch.narrow(0, i, 1)).abs().max().item<double>();
    if (gap > result.coupling) {
      result.coupling = gap;
      result.coupled_sample = i;
    }
    if (!alone.requires_grad()) continue;  // no parameter influences this sample
    for (int64_t c = 0; c < outputs; ++c) {
      const auto gradients = gradients_at(parameters, alone.select(1, first_output + c), one,
                                          c + 1 < outputs ? Graph::kKept : Graph::kFreed);
      interruption_point();
      Tensor row = result.rows[i * outputs + c];
      int64_t offset = 0;
      for (size_t k = 0; k < parameters.size(); ++k) {
        const int64_t count = parameters[k].numel();
        if (gradients[k].defined()) row.narrow(0, offset, count).copy_(gradients[k].reshape({-1}));
        offset += count;
      }
    }
  }
  return result;
}

}  // namespace cdt::kernel
