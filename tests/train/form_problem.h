/// Networks and their residuals, with the least squares problem of a step solved by brute force.
#pragma once

#include <cdt/kernel/linearization.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/step_engine.h>
#include <cdt/train/forms/ridge.h>

#include <cmath>

#include "support/compare.h"
#include "train/problem.h"

namespace cdt::test {

using loss::LossPtr;
using torch::Tensor;
using train::RidgeOptions;
using train::RidgeProblem;
using train::RidgeStep;
using train::TrainData;

/// Conjugate gradients to the end: the network is float64.
inline RidgeOptions tight() {
  RidgeOptions options;
  options.products = options.sketch_products = 2000;
  options.tolerance = 1e-13;
  options.sketch_gain = 0;
  return options;
}

/// A network, its residuals on some data, and parameters that have moved from their start.
struct FormProblem {
  nn::Mlp net{nullptr};
  kernel::Model model;
  TrainData data;
  RidgeProblem problem;

  FormProblem(LossPtr loss, int64_t samples, int64_t outputs, uint64_t seed, bool weighted,
              int64_t width)
      : net(small_network(4, outputs, seed, torch::kFloat64, width)),
        model(net),
        data(loss->classes() ? class_data(samples, outputs, seed)
                             : smooth_data(samples, outputs, seed)),
        problem{kernel::linearize(model, data.x), {}, {}} {
    Tensor weights;
    if (weighted) {
      weights = torch::linspace(0.2, 3, samples, kDouble).repeat_interleave(outputs);
    }
    problem.residuals = loss->residuals(net->forward(data.x).detach(), data.y, weights);
    problem.displacement = 0.1 * torch::randn({model.parameter_count()}, kDouble);
  }

  /// J [n, P] by a backward pass an output, the oracle.
  Tensor jacobian() const {
    const Tensor outputs = model.forward(data.x).reshape({-1});
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < outputs.size(0); ++i) {
      rows.push_back(kernel::flatten(model, torch::autograd::grad({outputs[i]}, model.parameters(),
                                                                  {}, /*retain_graph=*/true)));
    }
    return torch::stack(rows);
  }
  /// SᵀJ
  Tensor rows() const {
    const Tensor J = jacobian().view({data.x.size(0), -1, model.parameter_count()});
    return problem.residuals.S.transpose(1, 2).bmm(J).view({-1, model.parameter_count()});
  }
  /// The least of ‖SᵀJδ + e‖² + τ‖d + δ‖² + μ‖δ‖², by stacking its parts.
  Tensor least(double tau, double mu) const {
    const int64_t P = model.parameter_count();
    const Tensor eye = torch::eye(P, kDouble);
    const Tensor M = torch::cat({rows(), std::sqrt(tau) * eye, std::sqrt(mu) * eye});
    const Tensor b = -torch::cat(
        {problem.residuals.e, std::sqrt(tau) * problem.displacement, torch::zeros({P}, kDouble)});
    return std::get<0>(torch::linalg_lstsq(M, b.unsqueeze(1), c10::nullopt, "gelsd")).squeeze(1);
  }
  /// δ [P] of a step, whatever the form says.
  Tensor delta(const RidgeStep& step) const {
    if (step.delta.defined()) return step.delta;
    return -step.shrink * problem.displacement - jacobian().t().mv(step.seed);
  }
};

/// One with its own way to the kernel, as residuals of a closure have.
class OwnKernelEngine : public kernel::GraphEngine {
 public:
  explicit OwnKernelEngine(const kernel::Model& model) : GraphEngine(model), model_(model) {}
  kernel::LinearizationPtr linearization(const Tensor& x) override {
    return kernel::linearize(model_, x);
  }

 private:
  kernel::Model model_;
};

struct FormCase {
  LossPtr loss;
  int64_t outputs;
  bool weighted;
};
inline const std::vector<FormCase> kFormCases{{loss::mse(), 1, false},
                                              {loss::mse(), 2, true},
                                              {loss::cross_entropy(), 2, true},
                                              {loss::cross_entropy(), 3, false}};

}  // namespace cdt::test
