#include <cdt/core/error.h>
#include <cdt/train/forms/form_choice.h>
#include <fmt/format.h>

#include <algorithm>

namespace cdt::train {
namespace {

/// A matrix, a copy with its diagonal moved, and a factor.
constexpr double kMatricesOfASolve = 3;
/// Of all samples, in units of rP: a recorded forward pass, gradients at the layers, and the checks
/// of both.
constexpr double kFactorPasses = 12;
/// A product with J and one with Jᵀ.
constexpr double kProductPasses = 4;
constexpr double kSketchProducts = 3;
constexpr double kFreeProducts = 30;

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
  sizes.path = setup.options.method == Method::kPath;
  return sizes;
}

FormCost form_cost(Form form, const FormSizes& sizes) {
  const auto r = static_cast<double>(sizes.samples);
  const auto n = static_cast<double>(sizes.residuals());
  const auto P = static_cast<double>(sizes.parameters);
  const auto width = static_cast<double>(sizes.width);
  const double products = kProductPasses * r * P * static_cast<double>(sizes.outputs);
  const auto dense = [&](double rows) {
    return FormCost{2 * rows * rows * width + 2 * cubed(rows) / 3,
                    kMatricesOfASolve * rows * rows * 8};
  };
  switch (form) {
    case Form::kDual:
      return dense(n);
    case Form::kPrimal:
      return {2 * n * P * P + 2 * cubed(P) / 3 + kFactorPasses * r * P,
              kMatricesOfASolve * P * P * 8};
    case Form::kSketch: {
      FormCost cost = dense(std::min(n, static_cast<double>(kSketchResiduals)));
      cost.operations += kFactorPasses * r * P + kSketchProducts * products;
      return cost;
    }
    case Form::kBatch: {
      const auto rows = static_cast<double>(sizes.batch_samples() * sizes.per_sample);
      FormCost cost = dense(rows);
      cost.operations = cost.operations * n / rows + kFactorPasses * r * P + products;
      return cost;
    }
    default:
      return {kFactorPasses * r * P + kFreeProducts * products, 0};
  }
}

int most_threads(Form form, const FormSizes& sizes) {
  /// Of the kernel of a batch and its factor: with 1000 residuals two threads took 1.7 times the
  /// processor time of one.
  constexpr double kOfOneThread = 5e9;
  /// Of a path's kernel of all samples and its factor: on a busy machine two threads took four
  /// times the processor time of one with 850 rows, most of it waiting.
  constexpr double kKernelOfOneThread = 1e10;
  if (form == Form::kDual && sizes.path) {
    const auto n = static_cast<double>(sizes.residuals());
    const double kernel = 2 * n * n * static_cast<double>(sizes.width) + 2 * cubed(n) / 3;
    return kernel < kKernelOfOneThread ? 1 : 0;
  }
  if (form != Form::kBatch) return 0;
  const auto rows = static_cast<double>(sizes.batch_samples() * sizes.per_sample);
  return 2 * rows * rows * static_cast<double>(sizes.width) + 2 * cubed(rows) / 3 < kOfOneThread
             ? 1
             : 0;
}

int most_threads_of_a_gradient(const FormSizes& sizes) {
  constexpr double kOfOneThread = 5e7;
  constexpr double kForwardAndBackward = 6;  // operations a weight and sample
  const auto weights = static_cast<double>(sizes.samples) * static_cast<double>(sizes.parameters);
  return kForwardAndBackward * weights < kOfOneThread ? 1 : 0;
}

int64_t more_sketch_rows(int64_t rows, int64_t samples, int64_t outputs) {
  const int64_t most = std::min(samples, std::max<int64_t>(1, kMostSketchResiduals / outputs));
  return std::max(rows, std::min(2 * rows, most));
}

namespace {

FormChoice choose_for_one(Form wanted, const FormSizes& sizes) {
  const auto room = static_cast<double>(sizes.memory_bytes);
  const auto cost = [&](Form form) { return form_cost(form, sizes); };
  const int64_t n = sizes.residuals();
  FormChoice choice;
  choice.form = wanted;
  choice.sketch_rows =
      std::min(sizes.samples, std::max<int64_t>(1, kSketchResiduals / sizes.per_sample));
  if (wanted != Form::kAuto) {
    const FormCost needed = cost(wanted);
    CDT_REQUIRE(needed.bytes <= room, "--form ", to_string(wanted), " needs ",
                fmt::format("{:.3g}", needed.bytes * 1e-6), " MB for its matrices, and memory is ",
                sizes.memory_bytes >> 20, " MB: more memory, or --form auto");
    choice.why = "asked for";
    if (wanted == Form::kBatch) {
      choice.batch_rows = sizes.batch_samples();
      choice.why = fmt::format("kernels of {} rows, one after another", choice.batch_rows);
    }
    return choice;
  }
  if (sizes.path && !sizes.one_row_kernel) {
    choice.form = Form::kFree;
    choice.why = fmt::format("{} classes: products with the kernel need no matrix of {} residuals",
                             sizes.outputs, n);
    return choice;
  }
  if (n <= kMostDual && cost(Form::kDual).bytes <= room) {
    choice.form = Form::kDual;
    choice.why = fmt::format("{} residuals: their kernel is exact, and small", n);
    return choice;
  }
  const double sketch = cost(Form::kSketch).operations;
  if (cost(Form::kPrimal).bytes <= room &&
      cost(Form::kPrimal).operations <= kExactIsWorth * sketch) {
    choice.form = Form::kPrimal;
    choice.why = fmt::format(
        "{} residuals of {} parameters: the parameters' matrix is exact, in {:.2g} "
        "operations a step",
        n, sizes.parameters, cost(Form::kPrimal).operations);
    return choice;
  }
  choice.form = cost(Form::kSketch).bytes <= room ? Form::kSketch : Form::kFree;
  choice.why = fmt::format(
      "{} residuals: their kernel would take {:.2g} operations a step, the matrix of {} parameters "
      "{:.2g}, {} {:.2g}",
      n, cost(Form::kDual).operations, sizes.parameters, cost(Form::kPrimal).operations,
      choice.form == Form::kSketch ? "a kernel of some of the rows" : "products alone",
      cost(choice.form).operations);
  return choice;
}

}  // namespace

FormChoice choose_form(Form wanted, const FormSizes& sizes) {
  const FormChoice choice = choose_for_one(wanted, sizes);
  CDT_REQUIRE(sizes.ranks == 1 || choice.form != Form::kBatch,
              "--form batch goes through all rows one batch after another, which workers cannot "
              "share: leave them out, or choose --form primal, sketch or free");
  CDT_REQUIRE(sizes.ranks == 1 || choice.form != Form::kDual, "--form dual (", choice.why,
              ") has one kernel of all rows, which workers cannot share: leave them out, or choose "
              "--form primal, sketch or free");
  return choice;
}

}  // namespace cdt::train
