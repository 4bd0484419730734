// The pre-flight by products with the kernel, against the dense one.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/data/houses.h>
#include <cdt/dynamics/loss_linearization.h>
#include <cdt/study/examine.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/encloses.h"
#include "support/temp_folder.h"

namespace cdt::study {
namespace {

using torch::Tensor;

class ByProducts : public testing::Test {
 protected:
  Problem load(torch::ScalarType dtype, const std::string& extra = "",
               std::vector<std::string> targets = {"price"}) {
    DataOptions data;
    data.file = (folder_ / "houses.csv").string();
    data.targets = std::move(targets);
    NetworkOptions network;
    network.hidden = {24, 16};
    network.dtype = dtype;
    write_file_atomically(data.file, {data::make_houses(150, 1) + extra});
    return load_problem(data, network, 1, torch::kCPU);
  }

 private:
  test::TempFolder folder_;
};

TEST_F(ByProducts, EnclosesWhatAllModesSay) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    for (const auto& targets : {std::vector<std::string>{"price"}, {"price", "area"}}) {
      const Problem problem = load(dtype, "", targets);
      const double rounding = dtype == torch::kFloat64 ? 1e-9 : 1e-5;
      for (const double rate : {0.03, 0.3, 3.0, 300.0}) {
        SCOPED_TRACE(testing::Message() << dtype << " " << targets.size() << " rate " << rate);
        AnalysisOptions options;
        options.learning_rate = rate;
        const analysis::Preflight dense = analyze(problem, options);
        const analysis::Preflight found = analyze_by_products(problem, options);
        EXPECT_EQ(found.n, dense.n);
        EXPECT_EQ(found.samples, dense.samples);
        EXPECT_EQ(found.outputs, dense.outputs);
        EXPECT_EQ(found.learning_rate, dense.learning_rate);
        EXPECT_EQ(found.gain_slow_modes(), dense.gain_slow_modes());
        EXPECT_TRUE(!found.stability.stable || dense.stability.stable);
        EXPECT_TRUE(!found.stability.exponential || dense.stability.exponential);
        EXPECT_TRUE(!found.reachability.reachable || dense.reachability.reachable);
        const double largest = dense.spectrum.largest.value;
        const auto encloses = [&](const control::Known& bound, const control::Known& exact,
                                  const char* name) {
          test::expect_encloses(bound, exact, rounding, std::abs(exact.value), name);
        };
        encloses(found.spectrum.largest, dense.spectrum.largest, "largest eigenvalue");
        test::expect_encloses(found.spectrum.smallest, dense.spectrum.smallest, rounding, largest,
                              "smallest eigenvalue");
        encloses(found.stability.kappa, dense.stability.kappa, "kappa");
        encloses(found.stability.margin, dense.stability.margin, "margin of descent");
        encloses(found.rates.stable, dense.rates.stable, "stable rate");
        encloses(found.rates.monotone, dense.rates.monotone, "rate without oscillation");
        encloses(found.reachability.rank, dense.reachability.rank, "rank");
        encloses(found.controller.radius, dense.controller.radius, "radius");
        // The controller with a tail is another one than that of all modes: its own loop counts.
        const Tensor G = analysis::usual_controller(found).matrix();
        const Tensor M = (dense.plant->modes().vectors * dense.plant->steps())
                             .mm(dense.plant->modes().vectors.t());
        const Tensor mu = torch::real(torch::linalg_eigvals(M.mm(G)));
        const double fastest = mu.max().item<double>();
        EXPECT_LT(fastest, 2);
        encloses(found.controller.kernel_margin, control::Known::exactly(2 / fastest), "margin");
        const Tensor moved = std::get<0>((1 - mu).sort()).narrow(0, 0, dense.plant->modes().rank);
        encloses(found.controller.radius, control::Known::exactly(moved.abs().max().item<double>()),
                 "radius of the loop");
        EXPECT_NEAR(found.products->trace, dense.plant->modes().values.sum().item<double>(),
                    std::max(1e-8, rounding) * found.products->trace);
      }
    }
  }
}

TEST_F(ByProducts, EstimatesWhatAllModesSay) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    const Problem problem = load(dtype);
    const Tensor values = analyze(problem, {}).plant->modes().values;
    const double largest = values[-1].item<double>();
    const analysis::Preflight preflight = analyze_by_products(problem, {});
    const analysis::ByProducts& found = *preflight.products;
    EXPECT_NEAR(preflight.spectrum.largest.lower, largest, 1e-3 * largest);
    const Tensor outputs = problem.model->forward(problem.data.x).to(torch::kFloat64);
    EXPECT_NEAR(*preflight.state.loss,
                dynamics::output_loss(loss::mse(), outputs, problem.data.y.to(torch::kFloat64)),
                1e-6);
    const double mean = found.trace / static_cast<double>(preflight.n);
    for (const analysis::FreedomAt& each : found.freedom) {
      const double wanted = (values / (values + each.decay * mean)).sum().item<double>();
      // Beside chance, 24 steps of a quadrature whose function has a pole near the spectrum.
      EXPECT_NEAR(each.freedom.value, wanted, 5 * each.freedom.error + 0.03 * wanted) << each.decay;
    }
    const double square = values.square().sum().item<double>();
    const double rank = found.trace * found.trace / square;
    EXPECT_NEAR(found.effective_rank.value, rank, 5 * found.effective_rank.error + 1e-3 * rank);
    double count = found.below.value;
    for (const analysis::Decade& decade : found.density) {
      count += decade.count.value;
      if (decade.from < 1e-2) continue;  // where modes are many, few steps tell decades apart badly
      const double low = decade.from * largest, high = 10 * low;
      const double wanted = (values >= low)
                                .logical_and(values < (decade.from == 0.1 ? 2 * high : high))
                                .sum()
                                .item<double>();
      // A mode that lies at the edge of a decade may be counted on either side.
      EXPECT_NEAR(decade.count.value, wanted, 5 * decade.count.error + 1.5) << decade.from;
    }
    EXPECT_NEAR(count, static_cast<double>(preflight.n), 1e-6 * static_cast<double>(preflight.n));
  }
}

TEST_F(ByProducts, CountsRowsThatCannotBeToldApart) {
  const Problem once = load(torch::kFloat64);
  EXPECT_EQ(analyze_by_products(once, {}).products->equal_rows, 0);
  const std::string csv = data::make_houses(150, 1);
  const std::string rows = csv.substr(csv.find('\n') + 1);
  const Problem twice = load(torch::kFloat64, rows);
  const analysis::Preflight found = analyze_by_products(twice, {});
  const control::Known& rank = found.reachability.rank;
  EXPECT_GT(found.products->equal_rows, 0);
  EXPECT_EQ(rank.upper, static_cast<double>(found.samples - found.products->equal_rows));
  EXPECT_LE(rank.lower, rank.upper);
  EXPECT_THAT(to_text(found), testing::HasSubstr("have the features of an earlier row"));
}

TEST_F(ByProducts, WritesWhatItFound) {
  AnalysisOptions options;
  options.learning_rate = 1e6;
  int64_t calls = 0;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_LE(done, total);
    ++calls;
  };
  const analysis::Preflight found = analyze_by_products(load(torch::kFloat32), options);
  EXPECT_GT(calls, 3);
  EXPECT_THAT(to_text(found), testing::AllOf(testing::HasSubstr("UNSTABLE"),
                                             testing::HasSubstr("Known for certain"),
                                             testing::HasSubstr("Estimated")));
  const auto json = nlohmann::json::parse(to_json(found));
  EXPECT_EQ(json["by"], "products");
  EXPECT_EQ(json["rank_at_least"], found.reachability.rank.lower);
  EXPECT_EQ(json["density"].size(), found.products->density.size());
}

TEST_F(ByProducts, IsForQuadraticLosses) {
  AnalysisOptions options;
  options.loss = loss::cross_entropy();
  EXPECT_THROW(analyze_by_products(load(torch::kFloat32), options), InvalidArgument);
}

}  // namespace
}  // namespace cdt::study
