// Stochastic Lanczos quadrature against dense eigendecompositions.
#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/quadrature.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"

namespace cdt::dynamics {
namespace {

using torch::Tensor;

constexpr auto kWide = torch::kFloat64;

Tensor spectrum(const std::string& shape, int64_t n) {
  const Tensor i = torch::arange(n, kWide);
  if (shape == "flat") return torch::ones({n}, kWide);
  if (shape == "power") return (i + 1).pow(-1.5);
  if (shape == "exponential") return torch::exp(-0.3 * i);
  return torch::where(i < 3, torch::full_like(i, 100),
                      torch::where(i < n / 2, torch::ones_like(i), torch::zeros_like(i)));
}

struct Rotated {
  Tensor values, theta;
  Rotated(const std::string& shape, int64_t n) : values(spectrum(shape, n)) {
    torch::manual_seed(5);
    const Tensor Q = std::get<0>(torch::linalg_qr(torch::randn({n, n}, kWide)));
    theta = (Q * values).mm(Q.t());
    theta = (theta + theta.t()) / 2;
  }
  KernelProduct product() const {
    return [this](const Tensor& X) { return theta.mm(X); };
  }
};

const std::vector<std::string> kShapes{"flat", "power", "exponential", "clustered"};

Tensor ridge(const Tensor& at, double tau) { return at / (at + tau); }

/// With as many steps as rows each probe is exact: gᵀf(Θ)g, here recomputed from the weights' sum.
TEST(Quadrature, ProbesOfAllStepsAreExact) {
  for (const std::string& shape : kShapes) {
    const Rotated kernel(shape, 40);
    QuadratureOptions options;
    options.steps = 40;
    options.probes = 3;
    const auto found = stochastic_quadrature(kernel.product(), 40, nullptr, options);
    const Tensor moment = (found.weights * found.nodes).sum(1);
    const Tensor inverse = (found.weights * ridge(found.nodes, 0.1)).sum(1);
    // The same signs, from the same seed.
    const auto generator = at::detail::createCPUGenerator(options.seed);
    const Tensor g = 2 * torch::randint(0, 2, {40, 3}, generator, kWide) - 1;
    const Tensor solved = torch::linalg_solve(kernel.theta + 0.1 * torch::eye(40, kWide),
                                              kernel.theta.mm(g), /*left=*/true);
    EXPECT_LE(test::relative_error(moment, (g * kernel.theta.mm(g)).sum(0)), 1e-10) << shape;
    EXPECT_LE(test::relative_error(inverse, (g * solved).sum(0)), 1e-9) << shape;
  }
}

TEST(Quadrature, TracesAreWithinTheirErrors) {
  for (const std::string& shape : kShapes) {
    const Rotated kernel(shape, 120);
    for (const uint64_t seed : {1, 2, 3, 4, 5}) {
      QuadratureOptions options;
      options.seed = seed;
      options.probes = 16;
      const auto found = stochastic_quadrature(kernel.product(), 120, nullptr, options);
      for (const double tau : {1.0, 0.05}) {
        const double wanted = ridge(kernel.values, tau).sum().item<double>();
        const auto freedom = found.trace([&](const Tensor& at) { return ridge(at, tau); });
        // Five standard errors of sixteen probes; of flat spectra there is none but rounding.
        EXPECT_NEAR(freedom.value, wanted, 5 * freedom.error + 1e-9 * wanted)
            << shape << ", seed " << seed << ", tau " << tau;
      }
      EXPECT_NEAR(found.trace([](const Tensor& at) { return torch::ones_like(at); }).value, 120,
                  1e-9);
    }
  }
}

TEST(Quadrature, KnownModesLeaveLessToChance) {
  const Rotated kernel("power", 150);
  LanczosOptions lanczos;
  lanczos.modes = 20;
  lanczos.trace = kernel.theta.trace().item<double>();
  const Modes modes = leading_modes(kernel.product(), 150, lanczos).modes;
  const QuadratureOptions options;
  const auto plain = stochastic_quadrature(kernel.product(), 150, nullptr, options);
  const auto deflated = stochastic_quadrature(kernel.product(), 150, &modes, options);
  const auto square = [](const Tensor& at) { return at.square(); };
  const double wanted = kernel.values.square().sum().item<double>();
  EXPECT_LT(deflated.trace(square).error, 0.05 * plain.trace(square).error);
  EXPECT_NEAR(deflated.trace(square).value, wanted, 1e-3 * wanted);
  EXPECT_NEAR(deflated.count_from(modes.values[0].item<double>() * 0.999).value, 20, 1.5);
}

/// Few different eigenvalues exhaust a probe's space; what is left of Lanczos vectors is rounding
/// and must not become nodes with weight.
TEST(Quadrature, ExhaustedProbesEnd) {
  const Rotated kernel("clustered", 60);
  QuadratureOptions options;
  options.steps = 50;
  const auto found = stochastic_quadrature(kernel.product(), 60, nullptr, options);
  for (const double value : {100.0, 1.0, 0.0}) {
    const auto near = [&](const Tensor& at) {
      return ((at - value).abs() < 1e-6).to(torch::kFloat64);
    };
    const auto share = found.trace(near);
    const double wanted = ((kernel.values - value).abs() < 1e-6).sum().item<double>();
    EXPECT_NEAR(share.value, wanted, 5 * share.error + 1e-6) << value;
  }
  EXPECT_GT(found
                .trace([](const Tensor& at) {
                  return ((at - 100).abs() < 1e-6)
                      .logical_or((at - 1).abs() < 1e-6)
                      .logical_or(at < 1e-6)
                      .to(torch::kFloat64);
                })
                .value,
            60 - 1e-6);
}

TEST(Quadrature, RefusesWhatIsNoProduct) {
  const auto narrow = [](const Tensor& X) { return X.narrow(0, 0, 2); };
  EXPECT_THROW(stochastic_quadrature(narrow, 5, nullptr, {}), InvalidArgument);
  const auto single = [](const Tensor& X) { return X.to(torch::kFloat32); };
  EXPECT_THROW(stochastic_quadrature(single, 5, nullptr, {}), InvalidArgument);
  const auto infinite = [](const Tensor& X) { return X / 0; };
  EXPECT_THROW(stochastic_quadrature(infinite, 5, nullptr, {}), InvalidArgument);
  QuadratureOptions none;
  none.probes = 0;
  const auto identity = [](const Tensor& X) { return X; };
  EXPECT_THROW(stochastic_quadrature(identity, 5, nullptr, none), InvalidArgument);
}

}  // namespace
}  // namespace cdt::dynamics
