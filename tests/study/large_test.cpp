// The pre-flight by products with the kernel, against the dense one.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/data/houses.h>
#include <cdt/study/parts/large.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace cdt::study {
namespace {

using torch::Tensor;

class Large : public testing::Test {
 protected:
  Problem load(torch::ScalarType dtype, const std::string& extra = "") {
    DataOptions data;
    data.file = (folder_ / "houses.csv").string();
    data.targets = {"price"};
    NetworkOptions network;
    network.hidden = {24, 16};
    network.dtype = dtype;
    write_file_atomically(data.file, {data::make_houses(150, 1) + extra});
    return load_problem(data, network, 1, torch::kCPU);
  }

 private:
  test::TempFolder folder_;
};

TEST_F(Large, AgreesWithAllModes) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    const Problem problem = load(dtype);
    AnalysisOptions options;
    options.learning_rate = 0.3;
    const Findings dense = analyze(problem, options);
    const LargeFindings found = analyze_large(problem, options);
    const double rounding = dtype == torch::kFloat64 ? 1e-9 : 1e-5;
    const Tensor values = dense.modes.values;
    const double largest = dense.modes.largest();
    EXPECT_EQ(found.n, dense.preflight.n);
    EXPECT_NEAR(found.trace, values.sum().item<double>(), rounding * found.trace);
    EXPECT_LE(found.lambda_max, largest * (1 + rounding));
    EXPECT_GE(found.lambda_max_bound, largest * (1 - rounding));
    EXPECT_NEAR(found.lambda_max, largest, 1e-3 * largest);
    EXPECT_LE(found.lr_max, dense.preflight.lr_max * (1 + rounding));
    EXPECT_GE(found.lr_max_above, dense.preflight.lr_max * (1 - rounding));
    EXPECT_LE(found.margins.cdt, dense.preflight.margins.cdt * (1 + rounding));
    EXPECT_LE(found.reachable_at_least, dense.preflight.reachability.rank);
    EXPECT_GE(found.reachable_at_most, dense.preflight.reachability.rank);
    const double mean = found.trace / static_cast<double>(found.n);
    for (const FreedomAt& each : found.freedom) {
      const double wanted = (values / (values + each.decay * mean)).sum().item<double>();
      // Beside chance, 24 steps of a quadrature whose function has a pole near the spectrum.
      EXPECT_NEAR(each.freedom.value, wanted, 5 * each.freedom.error + 0.03 * wanted) << each.decay;
    }
    const double square = values.square().sum().item<double>();
    const double rank = found.trace * found.trace / square;
    EXPECT_NEAR(found.effective_rank.value, rank, 5 * found.effective_rank.error + 1e-3 * rank);
    double count = found.below.value;
    for (const Decade& decade : found.density) {
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
    EXPECT_NEAR(count, static_cast<double>(found.n), 1e-6 * static_cast<double>(found.n));
  }
}

TEST_F(Large, CountsRowsThatCannotBeToldApart) {
  const Problem once = load(torch::kFloat64);
  EXPECT_EQ(analyze_large(once, {}).equal_rows, 0);
  const std::string csv = data::make_houses(150, 1);
  const std::string rows = csv.substr(csv.find('\n') + 1);
  const Problem twice = load(torch::kFloat64, rows);
  const LargeFindings found = analyze_large(twice, {});
  EXPECT_GT(found.equal_rows, 0);
  EXPECT_EQ(found.reachable_at_most, found.samples - found.equal_rows);
  EXPECT_LE(found.reachable_at_least, found.reachable_at_most);
  EXPECT_THAT(to_text(found), testing::HasSubstr("have the features of an earlier row"));
}

TEST_F(Large, WritesWhatItFound) {
  AnalysisOptions options;
  options.learning_rate = 1e6;
  int64_t calls = 0;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_LE(done, total);
    ++calls;
  };
  const LargeFindings found = analyze_large(load(torch::kFloat32), options);
  EXPECT_GT(calls, 3);
  EXPECT_THAT(to_text(found), testing::AllOf(testing::HasSubstr("UNSTABLE"),
                                             testing::HasSubstr("Known for certain"),
                                             testing::HasSubstr("Estimated")));
  const auto json = nlohmann::json::parse(to_json(found));
  EXPECT_EQ(json["by"], "products");
  EXPECT_EQ(json["rank_at_least"], found.reachable_at_least);
  EXPECT_EQ(json["density"].size(), found.density.size());
}

TEST_F(Large, IsForQuadraticLosses) {
  AnalysisOptions options;
  options.loss = loss::cross_entropy();
  EXPECT_THROW(analyze_large(load(torch::kFloat32), options), InvalidArgument);
}

}  // namespace
}  // namespace cdt::study
