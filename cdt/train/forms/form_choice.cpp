#include <cdt/core/error.h>
#include <cdt/train/forms/form_choice.h>
#include <fmt/format.h>

#include <algorithm>

namespace cdt::train {
namespace {

/// One product with J and one with Jᵀ, in passes.
constexpr double kProductPasses = 4;

double cubed(double n) { return n * n * n; }

}  // namespace

FormSizes form_sizes(const kernel::Model& model, const loss::LossPtr& loss, int64_t samples,
                     int64_t outputs, int64_t memory_bytes) {
  FormSizes sizes;
  sizes.samples = samples;
  sizes.outputs = outputs;
  const loss::ResidualShape residuals = loss->residual_shape(outputs);
  sizes.per_sample = residuals.per_sample;
  sizes.one_row_kernel = residuals.one_for_all;
  sizes.parameters = model.parameter_count();
  for (const torch::Tensor& p : model.parameters()) {
    if (p.dim() >= 2) sizes.width += p.size(0) + p.numel() / p.size(0);
  }
  sizes.memory_bytes = memory_bytes;
  return sizes;
}

FormSizes form_sizes(const Setup& setup, int64_t step) {
  const int64_t samples = setup.batches.all() ? setup.samples : setup.labels(step).size(0);
  FormSizes sizes = form_sizes(setup.model, setup.options.loss, samples, setup.data.y.size(1),
                               setup.options.memory_bytes);
  sizes.ranks = setup.data.ranks->size();
  sizes.batch = setup.options.batch;
  sizes.path = setup.options.method->path;
  return sizes;
}

double FormSizes::factor_pass() const {
  return kFactorPasses * static_cast<double>(samples) * static_cast<double>(parameters);
}

double FormSizes::product() const {
  return kProductPasses * static_cast<double>(samples) * static_cast<double>(parameters) *
         static_cast<double>(outputs);
}

FormCost dense_cost(double residuals, const FormSizes& sizes) {
  return {2 * residuals * residuals * static_cast<double>(sizes.width) + 2 * cubed(residuals) / 3,
          kMatricesOfASolve * residuals * residuals * 8};
}

FormCost form_cost(const Form& form, const FormSizes& sizes) { return form->cost(sizes); }

int most_threads(const Form& form, const FormSizes& sizes) {
  /// Limit on the kernel of a batch and its factor: with 1000 residuals, two threads took 1.7 times
  /// the processor time of one.
  constexpr double kOfOneThread = 5e9;
  /// Limit on a path's kernel of all samples and its factor: on a busy machine with 850 rows, two
  /// threads took four times the processor time of one, most of it waiting.
  constexpr double kKernelOfOneThread = 1e10;
  if (form->one_kernel && sizes.path) {
    const auto n = static_cast<double>(sizes.residuals());
    const double kernel = 2 * n * n * static_cast<double>(sizes.width) + 2 * cubed(n) / 3;
    return kernel < kKernelOfOneThread ? 1 : 0;
  }
  if (!form->batches) return 0;
  const auto rows = static_cast<double>(sizes.batch_samples() * sizes.per_sample);
  return 2 * rows * rows * static_cast<double>(sizes.width) + 2 * cubed(rows) / 3 < kOfOneThread
             ? 1
             : 0;
}

int most_threads_of_a_gradient(const FormSizes& sizes) {
  constexpr double kOfOneThread = 5e7;
  constexpr double kForwardAndBackward = 6;  // operations per weight and sample
  const auto weights = static_cast<double>(sizes.samples) * static_cast<double>(sizes.parameters);
  return kForwardAndBackward * weights < kOfOneThread ? 1 : 0;
}

int64_t more_sketch_rows(int64_t rows, int64_t samples, int64_t outputs) {
  const int64_t most = std::min(samples, std::max<int64_t>(1, kMostSketchResiduals / outputs));
  return std::max(rows, std::min(2 * rows, most));
}

namespace {

FormChoice choose_for_one(const Form& wanted, const FormSizes& sizes) {
  const auto room = static_cast<double>(sizes.memory_bytes);
  const auto cost = [&](const Form& form) { return form_cost(form, sizes); };
  const int64_t n = sizes.residuals();
  FormChoice choice;
  choice.form = wanted;
  choice.sketch_rows =
      std::min(sizes.samples, std::max<int64_t>(1, kSketchResiduals / sizes.per_sample));
  if (!wanted->open) {
    const FormCost needed = cost(wanted);
    CDT_REQUIRE(needed.bytes <= room, "--form ", wanted.name(), " needs ",
                fmt::format("{:.3g}", needed.bytes * 1e-6), " MB for its matrices, and memory is ",
                sizes.memory_bytes >> 20, " MB: more memory, or --form auto");
    choice.why = "asked for";
    if (wanted->batches) {
      choice.batch_rows = sizes.batch_samples();
      choice.why = fmt::format("kernels of {} rows, one after another", choice.batch_rows);
    }
    return choice;
  }
  if (sizes.path && !sizes.one_row_kernel) {
    choice.form = "free";
    choice.why = fmt::format("{} classes: products with the kernel need no matrix of {} residuals",
                             sizes.outputs, n);
    return choice;
  }
  if (n <= kMostDual && cost("dual").bytes <= room) {
    choice.form = "dual";
    choice.why = fmt::format("{} residuals: their kernel is exact, and small", n);
    return choice;
  }
  const double sketch = cost("sketch").operations;
  if (cost("primal").bytes <= room && cost("primal").operations <= kExactIsWorth * sketch) {
    choice.form = "primal";
    choice.why = fmt::format(
        "{} residuals of {} parameters: the parameters' matrix is exact, in {:.2g} "
        "operations a step",
        n, sizes.parameters, cost("primal").operations);
    return choice;
  }
  choice.form = cost("sketch").bytes <= room ? "sketch" : "free";
  choice.why = fmt::format(
      "{} residuals: their kernel would take {:.2g} operations a step, the matrix of {} parameters "
      "{:.2g}, {} {:.2g}",
      n, cost("dual").operations, sizes.parameters, cost("primal").operations,
      choice.form->sketches ? "a kernel of some of the rows" : "products alone",
      cost(choice.form).operations);
  return choice;
}

}  // namespace

FormChoice choose_form(const Form& wanted, const FormSizes& sizes) {
  const FormChoice choice = choose_for_one(wanted, sizes);
  CDT_REQUIRE(sizes.ranks == 1 || !choice.form->batches,
              "--form batch goes through all rows one batch after another, which workers cannot "
              "share: leave them out, or choose --form primal, sketch or free");
  CDT_REQUIRE(sizes.ranks == 1 || !choice.form->one_kernel, "--form dual (", choice.why,
              ") has one kernel of all rows, which workers cannot share: leave them out, or choose "
              "--form primal, sketch or free");
  return choice;
}

}  // namespace cdt::train
