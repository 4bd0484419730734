// The pre-flight by products with a kernel, against that of the kernel.
#include <cdt/analysis/preflight.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <gmock/gmock.h>

#include "support/compare.h"
#include "support/encloses.h"

namespace cdt {
namespace {

using analysis::Preflight;
using torch::Tensor;

analysis::ProductKernel products_of(const Tensor& theta, int64_t rank) {
  analysis::ProductKernel kernel;
  kernel.samples = theta.size(0);
  kernel.outputs = 1;
  kernel.parameters = rank;
  kernel.trace = theta.trace().item<double>();
  kernel.times = [theta](const Tensor& columns) { return theta.mm(columns); };
  const int64_t part = std::min<int64_t>(theta.size(0), 20);
  kernel.part = theta.narrow(0, 0, part).narrow(1, 0, part);
  kernel.network_dtype = torch::kFloat64;
  return kernel;
}

// With few rows all modes are found, and numbers are exact; with more there are bounds.
TEST(ProductKernel, EnclosesWhatTheKernelSays) {
  for (const int64_t n : {3, 12, 60}) {
    for (const int64_t rank : {n, n - 2}) {
      for (const double rate : {1e-3, 0.4, 7.0, 1e4}) {
        SCOPED_TRACE(testing::Message() << n << " rows, rank " << rank << ", rate " << rate);
        const Tensor theta = test::random_kernel(n, rank, 4.0, 3);
        analysis::PreflightOptions options;
        options.loss = loss::sse();
        options.learning_rate = rate;
        options.outputs_per_sample = 1;
        options.network_dtype = torch::kFloat64;
        const Preflight dense = analyze(theta, options);
        const Preflight found = analyze(products_of(theta, rank), options);
        const auto encloses = [](const control::Known& bound, const control::Known& exact,
                                 const char* name) {
          test::expect_encloses(bound, exact, 1e-9, std::abs(exact.value), name);
        };
        EXPECT_EQ(found.n, n);
        EXPECT_TRUE(!found.stability.stable || dense.stability.stable);
        EXPECT_EQ(found.stability.margin.exact(), n <= 12);
        encloses(found.spectrum.largest, dense.spectrum.largest, "largest eigenvalue");
        test::expect_encloses(found.spectrum.smallest, dense.spectrum.smallest, 1e-9, 4,
                              "smallest eigenvalue");
        encloses(found.stability.kappa, dense.stability.kappa, "kappa");
        encloses(found.stability.margin, dense.stability.margin, "margin");
        encloses(found.rates.stable, dense.rates.stable, "stable rate");
        encloses(found.rates.monotone, dense.rates.monotone, "rate without oscillation");
        encloses(found.reachability.rank, dense.reachability.rank, "rank");
        encloses(found.controller.radius, dense.controller.radius, "radius");
        const Tensor G = analysis::usual_controller(found).matrix();
        encloses(found.controller.kernel_margin,
                 control::Known::exactly(analysis::kernel_margin(*dense.plant, G)),
                 "margin under control");
        EXPECT_NEAR(found.products->trace, theta.trace().item<double>(), 1e-12);
      }
    }
  }
}

TEST(ProductKernel, IsForQuadraticLosses) {
  analysis::PreflightOptions options;
  options.loss = loss::cross_entropy();
  EXPECT_THROW(analyze(products_of(test::random_kernel(5, 9, 1.0, 1), 5), options),
               InvalidArgument);
}

}  // namespace
}  // namespace cdt
