// The three initialisations and the kernel as the width grows (paper App. init).
#include <cdt/kernel/ntk.h>
#include <cdt/loss/loss.h>
#include <cdt/nn/mlp.h>
#include <gmock/gmock.h>

#include "support/compare.h"

namespace cdt {
namespace {

using nn::Mlp;
using nn::Parametrization;
using torch::Tensor;

using test::kDouble;
const std::vector<Parametrization> kParametrizations{
    Parametrization::kStandard, Parametrization::kNtk, Parametrization::kImproved};

Mlp network(Parametrization parametrization, int64_t factor, uint64_t seed) {
  nn::MlpOptions o;
  o.inputs = 4;
  o.hidden = {16, 16};
  o.activation = nn::Activation::kTanh;
  o.parametrization = parametrization;
  o.sigma_w = 1.2;
  o.width_factor = factor;
  return Mlp(o, seed, torch::kFloat64);
}

Tensor inputs(int64_t samples) {
  torch::manual_seed(11);
  return torch::randn({samples, 4}, kDouble);
}

Tensor kernel_of(const Mlp& net, const Tensor& x) { return kernel::empirical_ntk(net, x).theta; }

/// Kernels of several draws [draws, n, n].
Tensor draws(Parametrization parametrization, int64_t factor, const Tensor& x) {
  std::vector<Tensor> all;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    all.push_back(kernel_of(network(parametrization, factor, seed), x));
  }
  return torch::stack(all);
}

/// How much draws differ, relative to their mean.
double scatter(const Tensor& kernels) {
  const Tensor mean = kernels.mean(0);
  return (kernels - mean).norm().item<double>() /
         (mean.norm().item<double>() * std::sqrt(static_cast<double>(kernels.size(0))));
}

// The layers' own distributions: Mlp.DrawsAndScalesAsThePapersTable. Here what the outputs make of
// them: in function space the three are one distribution.
TEST(Initialisation, OutputsHaveTheSameVarianceUnderAllThree) {
  const Tensor x = inputs(6);
  std::vector<double> variances;
  for (const auto parametrization : kParametrizations) {
    double sum = 0;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      sum += network(parametrization, 4, seed)->forward(x).square().mean().item<double>();
    }
    variances.push_back(sum / 200);
  }
  // A mean of 200 squares scatters by √(2/200) = 10 %; three of these between two of them.
  EXPECT_NEAR(variances[1] / variances[0], 1, 0.4);
  EXPECT_NEAR(variances[2] / variances[0], 1, 0.4);
}

TEST(Initialisation, TheStandardKernelGrowsWithTheWidthTheOthersConverge) {
  const Tensor x = inputs(8);
  for (const auto parametrization : kParametrizations) {
    SCOPED_TRACE(to_string(parametrization));
    const Tensor narrow = draws(parametrization, 1, x);
    const Tensor wide = draws(parametrization, 16, x);
    const Tensor wider = draws(parametrization, 32, x);
    const double growth = wider.mean(0).norm().item<double>() / wide.mean(0).norm().item<double>();
    if (parametrization == Parametrization::kStandard) {
      EXPECT_NEAR(growth, 2, 0.15);  // twice as wide, twice as large
    } else {
      EXPECT_NEAR(growth, 1, 0.05);
      EXPECT_LE(test::relative_error(wide.mean(0), wider.mean(0)), 0.05);
    }
    EXPECT_LT(scatter(wide), 0.5 * scatter(narrow));  // draws agree: like one over √width
  }
}

/// GD on ‖e‖²/n at half of the largest stable rate; returns the loss on `held` at the end.
double train(Mlp& net, const Tensor& x, const Tensor& y, int64_t steps, const Tensor& held,
             const Tensor& held_y) {
  const double largest = torch::linalg_eigvalsh(kernel_of(net, x))[-1].item<double>();
  const double factor = loss::gradient_factor(loss::mse(), y.size(0));
  const double rate = 1 / (factor * largest);
  for (int64_t k = 0; k < steps; ++k) {
    const Tensor loss = torch::mse_loss(net->forward(x).reshape({-1}), y);
    const auto gradients = torch::autograd::grad({loss}, net->parameters());
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < gradients.size(); ++i) net->parameters()[i].sub_(rate * gradients[i]);
  }
  return torch::mse_loss(net->forward(held).reshape({-1}), held_y).item<double>();
}

Tensor labels(const Tensor& x) { return (2 * x.select(1, 0)).sin() + 0.5 * x.select(1, 1); }

TEST(Initialisation, TheKernelsDriftFallsWithTheWidth) {
  const Tensor x = inputs(12);
  const Tensor y = labels(x);
  for (const auto parametrization : {Parametrization::kNtk, Parametrization::kImproved}) {
    SCOPED_TRACE(to_string(parametrization));
    double previous = INFINITY;
    for (int64_t factor : {1, 4, 16}) {
      double drift = 0;
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        Mlp net = network(parametrization, factor, seed);
        const Tensor before = kernel_of(net, x);
        train(net, x, y, 150, x, y);
        drift += test::relative_error(kernel_of(net, x), before) / 3;
      }
      EXPECT_LT(drift, 0.7 * previous) << "width factor " << factor;
      previous = drift;
    }
  }
}

TEST(Initialisation, FinalErrorsAreSimilar) {
  const Tensor x = inputs(40);
  const Tensor y = labels(x);
  const Tensor train_x = x.narrow(0, 0, 24), held = x.narrow(0, 24, 16);
  std::vector<double> errors;
  for (const auto parametrization : kParametrizations) {
    double mean = 0;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Mlp net = network(parametrization, 8, seed);
      mean += train(net, train_x, y.narrow(0, 0, 24), 2000, held, y.narrow(0, 24, 16)) / 3;
    }
    errors.push_back(mean);
  }
  const double untrained = y.narrow(0, 24, 16).square().mean().item<double>();
  for (const double error : errors) {
    EXPECT_LT(error, untrained);
    EXPECT_NEAR(error / errors[1], 1, 0.5);
  }
}

}  // namespace
}  // namespace cdt
