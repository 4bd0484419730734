#include <cdt/core/text/format.h>
#include <cdt/study/parts/cost.h>
#include <cdt/train/batches.h>
#include <cdt/train/loop/residuals.h>
#include <fmt/format.h>

#include <algorithm>

namespace cdt::study {
namespace {

using torch::Tensor;

/// Operations per second, float64.
constexpr double kCpuRate = 5e10;
constexpr double kGpuRate = 2e12;
/// Operations of an eigendecomposition, in units of n³: measured 1.1 s at n = 2000 on two cores.
constexpr double kSpectrumOperations = 7;
/// Number of n × n matrices in memory: Θ, its eigenvectors, and LAPACK's workspace.
constexpr int64_t kMatrices = 5;

/// Speed of float32 convolutions, by the same measure; and gradient steps per output of a kernel:
/// measured 3 on an AlexNet with two outputs.
constexpr double kConvolutionFactor = 3;
constexpr double kStepsOfAKernel = 3;

constexpr double kSecondsOfEachStep = 5;
constexpr double kSecondsOnce = 30;
/// Share of that time for a batch.
constexpr double kShareOfABatch = 0.25;
constexpr double kSecondsOfAnalysis = 30;

/// The maximum number of samples, up to those of the problem, that satisfies `fits`.
template <class Fits>
int64_t most_samples(const Problem& problem, const Fits& fits) {
  int64_t low = 1, high = problem.data.x.size(0);
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (fits(kernel_cost(problem, middle))) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Whether it is a quadratic loss without weights.
bool is_plain(const Problem& problem, const train::TrainOptions& training) {
  return training.loss->quadratic() && !problem.data.sample_weights.defined() &&
         !problem.data.output_weights.defined();
}

/// Whether a kernel of this cost fits the time limit, times `share`, and the memory.
bool fits(const KernelCost& cost, const train::TrainOptions& training, double share) {
  const bool guarded = training.method->guarded;
  const bool factors = guarded && !training.learning_rate && training.loss->quadratic();
  const double limit = guarded ? kSecondsOfEachStep : kSecondsOnce;
  const double seconds =
      cost.kernel_seconds + (factors ? cost.factor_seconds : cost.spectrum_seconds);
  return seconds <= share * limit && cost.bytes <= training.memory_bytes;
}

}  // namespace

KernelCost kernel_cost(const Problem& problem, int64_t samples) {
  KernelCost cost;
  cost.outputs = samples * problem.data.y.size(1);
  const auto n = static_cast<double>(cost.outputs);
  // A Gram product per layer for inputs and for gradients; outputs share the inputs.
  double width = static_cast<double>(problem.data.x.size(1));
  for (const Tensor& parameter : problem.model->parameters()) {
    if (parameter.dim() >= 2) width += 2 * static_cast<double>(parameter.size(0));
  }
  const double rate = problem.data.x.is_cuda() ? kGpuRate : kCpuRate;
  cost.kernel_seconds = 2 * n * n * width / rate;
  if (problem.data.x.dim() > 2) {  // weights are used at many positions
    cost.kernel_seconds += kStepsOfAKernel * n * problem.model->operations_per_sample().step /
                           (kConvolutionFactor * rate);
  }
  cost.factor_seconds = n * n * n / 3 / rate;
  cost.spectrum_seconds = kSpectrumOperations * n * n * n / rate;
  cost.bytes = kMatrices * cost.outputs * cost.outputs * static_cast<int64_t>(sizeof(double));
  return cost;
}

std::string to_text(const KernelCost& cost) {
  const double seconds = cost.kernel_seconds + cost.spectrum_seconds;
  const std::string time = seconds < 120    ? fmt::format("{:.0f} s", std::max(1.0, seconds))
                           : seconds < 7200 ? fmt::format("{:.0f} min", seconds / 60)
                                            : fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("about {} and {:.2g} GB", time, static_cast<double>(cost.bytes) * 1e-9);
}

bool kernel_fits(const Problem& problem, const train::TrainOptions& training) {
  return !training.method->controlled ||
         fits(kernel_cost(problem, problem.data.x.size(0)), training, 1);
}

bool takes_form(const Problem& problem, const train::TrainOptions& training) {
  return training.form->open && train::only_arrives(training) && !is_plain(problem, training) &&
         !kernel_fits(problem, training);
}

int64_t usual_batch(const Problem& problem, const train::TrainOptions& training) {
  if (training.form->batches && training.method->controlled) {
    const int64_t per_sample = training.loss->residual_shape(problem.data.y.size(1)).per_sample;
    return train::batch_rows(0, problem.data.x.size(0), per_sample);
  }
  if (!training.form->open) return 0;  // all rows, with any solver
  if (kernel_fits(problem, training) || takes_form(problem, training)) return 0;
  return most_samples(problem,
                      [&](const KernelCost& cost) { return fits(cost, training, kShareOfABatch); });
}

int64_t most_rows_to_analyze(const Problem& problem, int64_t memory_bytes) {
  return most_samples(problem, [&](const KernelCost& cost) {
    return cost.kernel_seconds + cost.spectrum_seconds <= kSecondsOfAnalysis &&
           cost.bytes <= memory_bytes;
  });
}

double trial_seconds(const Problem& problem, int64_t steps) {
  if (problem.data.x.dim() <= 2) return 0;
  // For either method: a step, its local model, and the curvature along the path.
  constexpr double kGradientSteps = 2 * 10;
  const double rate = kConvolutionFactor * (problem.data.x.is_cuda() ? kGpuRate : kCpuRate);
  return kGradientSteps * static_cast<double>(steps * problem.data.x.size(0)) *
         problem.model->operations_per_sample().step / rate;
}

Problem first_rows(const Problem& problem, int64_t rows) {
  Problem part = problem;
  part.split.train.resize(static_cast<size_t>(rows));
  for (Tensor* tensor : {&part.data.x, &part.data.y, &part.data.sample_weights}) {
    if (tensor->defined()) *tensor = tensor->narrow(0, 0, rows);
  }
  return part;
}

}  // namespace cdt::study
