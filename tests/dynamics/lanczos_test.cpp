// Leading modes by products alone against dense decompositions: spectra of every shape, certified
// bounds, orthogonality that rounding would destroy.
#include <cdt/core/error.h>
#include <cdt/dynamics/lanczos.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "support/compare.h"

namespace cdt {
namespace {

using dynamics::LanczosOptions;
using dynamics::leading_modes;
using test::kDouble;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

dynamics::KernelProduct product_of(const Tensor& theta) {
  return [theta](const Tensor& X) { return theta.mm(X); };
}

/// Options that know what they need to know of Θ, from its definition.
LanczosOptions options_for(const Tensor& theta, int64_t modes) {
  LanczosOptions options;
  options.modes = modes;
  options.trace = theta.trace().item<double>();
  return options;
}

/// Eigenvalues by shape, largest 1.
std::map<std::string, std::vector<double>> spectra(int64_t n) {
  std::map<std::string, std::vector<double>> all;
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<double>(i);
    const auto share = x / static_cast<double>(n);
    all["flat"].push_back(1 - 0.2 * share);
    all["power law"].push_back(std::pow(1 + x, -1.5));
    all["exponential"].push_back(std::pow(10.0, -16 * share));
    all["clustered"].push_back(i < 5    ? 1 - 1e-9 * x
                               : i < 12 ? 0.1 + 1e-10 * x
                                        : 1e-3 * (1 - share));
    all["multiple"].push_back(i < 20   ? 1
                              : i < 40 ? 0.5
                                       : 0.01);  // more copies than a block has columns
    all["low rank"].push_back(i < 6 ? 1 / (1 + x) : 0);
    all["identity"].push_back(1);
  }
  return all;
}

/// λ_max of Θ on the complement of V, densely.
double largest_outside(const Tensor& theta, const Tensor& V) {
  const Tensor P = torch::eye(theta.size(0), kDouble) - V.mm(V.t());
  const Tensor rest = P.mm(theta).mm(P);
  return torch::linalg_eigvalsh((rest + rest.t()) / 2)[-1].item<double>();
}

void expect_certified(const Tensor& theta, const dynamics::Modes& modes) {
  const Tensor& V = modes.vectors;
  const Tensor gram = V.t().mm(V) - torch::eye(modes.count(), kDouble);
  EXPECT_LE(gram.norm().item<double>(), 1e-12);
  const Tensor errors = theta.mm(V) - V * modes.values;
  // Values that were called zero may be off by nε.
  EXPECT_LE(errors.norm().item<double>(), (1.01 * modes.residual + 1e-13) * modes.largest());
  EXPECT_LE(largest_outside(theta, V), modes.tail_bound * (1 + 1e-12) + 1e-14 * modes.largest());
  EXPECT_LE(torch::linalg_eigvalsh(theta)[-1].item<double>(), modes.upper_bound() * (1 + 1e-13));
}

TEST(Lanczos, AgreesWithTheDenseDecompositionOnSpectraOfEveryShape) {
  const int64_t n = 120;
  for (const auto& [shape, values] : spectra(n)) {
    for (const uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << shape << ", seed " << seed);
      const Tensor theta = test::kernel_with(values, seed);
      auto options = options_for(theta, 12);
      options.seed = seed;
      const auto found = leading_modes(product_of(theta), n, options);
      EXPECT_TRUE(found.converged);
      ASSERT_EQ(found.modes.count(), 12);
      EXPECT_EQ(found.modes.size(), n);
      EXPECT_LE(found.modes.residual, 12 * options.tolerance);
      expect_certified(theta, found.modes);
      // Ritz values are eigenvalues to the square of the residual over the gap, or to the residual
      // where there is none; copies beyond the block's eight may be missed.
      if (shape == "multiple" || shape == "identity") continue;
      const Tensor exact = torch::linalg_eigvalsh(theta).narrow(0, n - 12, 12).clamp_min(0);
      EXPECT_LE((found.modes.values - exact).abs().max().item<double>(), 1e-9);
    }
  }
}

TEST(Lanczos, BoundsHoldOverManySeedsHoweverLittleHasConverged) {
  const int64_t n = 60;
  for (const auto& [shape, values] : spectra(n)) {
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      SCOPED_TRACE(testing::Message() << shape << ", seed " << seed);
      const Tensor theta = test::kernel_with(values, seed);
      LanczosOptions options;
      options.modes = 1 + static_cast<int64_t>(seed % 9);
      options.block = 1 + static_cast<int64_t>(seed % 4);
      options.max_restarts = static_cast<int64_t>(seed % 3);  // too few
      options.seed = seed;
      if (seed % 2 == 0) options.trace = theta.trace().item<double>();
      if (seed % 3 == 0 || !options.trace)
        options.squared_norm = theta.square().sum().item<double>();
      const auto found = leading_modes(product_of(theta), n, options);
      expect_certified(theta, found.modes);
      EXPECT_LE(found.restarts, options.max_restarts);
    }
  }
}

TEST(Lanczos, MissedCopiesOfAnEigenvalueAreInTheBound) {
  // A single vector sees one copy of each eigenvalue: Ritz values alone would say that 0.01 is
  // next.
  std::vector<double> values(40, 0.01);
  std::fill_n(values.begin(), 6, 1.0);
  const Tensor theta = test::kernel_with(values, 4);
  LanczosOptions options = options_for(theta, 1);
  options.block = 1;
  options.basis = 2;
  options.max_restarts = 3;
  const auto found = leading_modes(product_of(theta), 40, options);
  EXPECT_GE(found.modes.tail_bound, 1);
  expect_certified(theta, found.modes);
}

TEST(Lanczos, KeepsOrthogonalWhereRoundingWouldNot) {
  // Eigenvalues over 16 decades: after the first have converged, plain Lanczos finds them again
  // and again. Many restarts with the smallest basis, and a norm that is far from 1.
  const int64_t n = 100;
  for (const double scale : {1e-6, 1.0, 1e6}) {
    const Tensor theta = scale * test::kernel_with(spectra(n)["exponential"], 7);
    auto options = options_for(theta, 20);
    options.block = 2;
    options.basis = 22;
    options.tolerance = 1e-13;
    options.max_restarts = 400;
    const auto found = leading_modes(product_of(theta), n, options);
    EXPECT_TRUE(found.converged);
    expect_certified(theta, found.modes);
    const Tensor exact = torch::linalg_eigvalsh(theta).narrow(0, n - 20, 20);
    EXPECT_LE(((found.modes.values - exact) / scale).abs().max().item<double>(), 1e-13);
    EXPECT_GT(found.restarts, 0);
  }
}

TEST(Lanczos, AllModesAreADecomposition) {
  for (const int64_t n : {1, 3, 10}) {
    const Tensor theta = test::random_kernel(n, n, 2.0, 5);
    LanczosOptions options;
    options.modes = 50;
    const auto found = leading_modes(product_of(theta), n, options);
    EXPECT_TRUE(found.converged);
    EXPECT_TRUE(found.modes.complete());
    EXPECT_EQ(found.modes.tail_bound, 0);
    EXPECT_EQ(found.modes.rank, n);
    EXPECT_LE(test::relative_error(
                  (found.modes.vectors * found.modes.values).mm(found.modes.vectors.t()), theta),
              1e-13);
  }
  const Tensor zero = torch::zeros({8, 8}, kDouble);
  const auto found = leading_modes(product_of(zero), 8, options_for(zero, 3));
  EXPECT_EQ(found.modes.rank, 0);
  EXPECT_EQ(found.modes.upper_bound(), 0);
}

TEST(Lanczos, LowRankLeavesNoTail) {
  const Tensor theta = test::random_kernel(80, 5, 3.0, 6);
  const auto found = leading_modes(product_of(theta), 80, options_for(theta, 9));
  EXPECT_TRUE(found.converged);
  EXPECT_EQ(found.modes.rank, 5);
  EXPECT_EQ(found.modes.nullity(), 4);
  EXPECT_LE(found.modes.tail_bound, 3e-12);  // 4nε of the trace
  expect_certified(theta, found.modes);
}

TEST(Lanczos, RefusesWhatItCannotCertify) {
  const Tensor theta = test::random_kernel(12, 12, 1.0, 8);
  const auto with = [&](auto change) {
    auto options = options_for(theta, 3);
    change(options);
    return [&, options] { leading_modes(product_of(theta), 12, options); };
  };
  EXPECT_THAT(with([](auto& o) { o.trace.reset(); }),
              ThrowsMessage<InvalidArgument>(HasSubstr("no bound without the trace")));
  EXPECT_THAT(with([](auto& o) { o.trace = 0.5; }),
              ThrowsMessage<InvalidArgument>(HasSubstr("trace must be no less")));
  EXPECT_THAT(with([](auto& o) { o.squared_norm = 0.5; }),
              ThrowsMessage<InvalidArgument>(HasSubstr("must be no less")));
  EXPECT_THROW(with([](auto& o) { o.modes = 0; })(), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.tolerance = 0; })(), InvalidArgument);
  EXPECT_THROW(with([](auto& o) { o.trace = NAN; })(), InvalidArgument);
  const auto options = options_for(theta, 3);
  EXPECT_THROW(leading_modes([](const Tensor& X) { return X.t(); }, 12, options), InvalidArgument);
  EXPECT_THROW(leading_modes([](const Tensor& X) { return X * NAN; }, 12, options),
               InvalidArgument);
  EXPECT_THROW(leading_modes([](const Tensor& X) { return X.to(torch::kFloat32); }, 12, options),
               InvalidArgument);
  EXPECT_THAT([&] { leading_modes([](const Tensor& X) { return -X; }, 12, options); },
              ThrowsMessage<InvalidArgument>(HasSubstr("positive semidefinite")));
}

}  // namespace
}  // namespace cdt
