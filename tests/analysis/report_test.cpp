// The pre-flight report: the JSON's stable names, and sentences that fit the case.
#include <cdt/analysis/preflight.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/ntk.h>
#include <gmock/gmock.h>
#include <torch/nn.h>

#include <nlohmann/json.hpp>

#include "support/compare.h"
#include "support/modes.h"

namespace cdt {
namespace {

using analysis::analyze;
using analysis::PreflightOptions;
using testing::HasSubstr;
using testing::Not;
using torch::Tensor;

using test::kDouble;

analysis::Preflight preflight(const Tensor& theta, PreflightOptions options) {
  if (options.outputs_per_sample == 0) options.outputs_per_sample = 1;
  return analyze(theta, test::spectrum_of(theta), options);
}

TEST(Report, IsTheSameOnEveryDevice) {
  const Tensor theta = test::kernel_with({0, 0.5, 1, 2, 4, 7}, 2);
  for (const auto& device : test::devices()) {
    SCOPED_TRACE(device.str());
    PreflightOptions options;
    options.loss = loss::sse();
    options.labels = torch::linspace(0, 1, 6, kDouble).to(device);
    options.outputs = torch::zeros({6}, kDouble).to(device);
    options.inputs = torch::linspace(0.1, 0.5, 12, kDouble).view({6, 2}).to(device);
    const auto found = preflight(theta.to(device), options);
    EXPECT_EQ(found.reachability.rank.value, 5);
    EXPECT_NEAR(found.spectrum.largest.value, 7, 1e-9);
    EXPECT_NEAR(found.stability.kappa.value, 0.95, 1e-9);
    EXPECT_NEAR(found.reach.inputs->largest_norm, std::hypot(0.5, 0.5 - 0.4 / 11), 1e-9);
  }
}

TEST(Report, JsonHasTheStableNames) {
  const Tensor theta = test::kernel_with({0.5, 1, 2, 4}, 1);
  PreflightOptions options;
  options.learning_rate = 0.1;
  options.loss = loss::sse();
  options.outputs_per_sample = 2;
  options.labels = torch::ones({4}, kDouble);
  options.outputs = torch::zeros({4}, kDouble);
  auto result = preflight(theta, options);
  result.controller.residual = 1e-14;
  const auto json = nlohmann::json::parse(to_json(result));
  for (const char* name :
       {"n", "samples", "outputs", "lambda_max", "lambda_min", "rank", "reachable", "stabilizable",
        "stable", "strictly_contracting", "lr_max", "radius_gd", "radius_cdt", "margin_gd",
        "margin_cdt", "gain_slow_modes", "riccati_residual", "conflicts"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json["n"], 4);
  EXPECT_EQ(json["samples"], 2);
  EXPECT_EQ(json["outputs"], 2);
  EXPECT_NEAR(json["lambda_max"], 4, 1e-12);
  EXPECT_NEAR(json["lambda_min"], 0.5, 1e-12);
  EXPECT_EQ(json["rank"], 4);
  EXPECT_EQ(json["reachable"], true);
  EXPECT_EQ(json["stabilizable"], true);
  EXPECT_EQ(json["stable"], true);
  EXPECT_EQ(json["strictly_contracting"], true);
  EXPECT_NEAR(json["lr_max"], 0.5, 1e-12);
  EXPECT_NEAR(json["radius_gd"], 0.95, 1e-12);
  EXPECT_LT(json["radius_cdt"], 0.95);
  EXPECT_NEAR(json["margin_gd"], 5, 1e-12);
  EXPECT_NEAR(json["gain_slow_modes"], std::sqrt(11.0) - 1, 1e-12);
  EXPECT_EQ(json["riccati_residual"], 1e-14);
  EXPECT_TRUE(json["conflicts"].empty());
  EXPECT_GT(json["reach_size"], 0);
}

TEST(Report, NamesConflicts) {
  torch::manual_seed(1);
  Tensor J = torch::randn({5, 9}, kDouble);
  J[4].copy_(J[1]);
  const Tensor theta = J.mm(J.t());
  PreflightOptions options;
  options.labels = torch::tensor({0.1, 0.2, 0.3, 0.4, 0.9}, kDouble);
  options.outputs = torch::zeros({5}, kDouble);
  const auto result = preflight(theta, options);
  const auto json = nlohmann::json::parse(to_json(result));
  EXPECT_EQ(json["reachable"], false);
  EXPECT_EQ(json["stabilizable"], false);
  ASSERT_EQ(json["conflicts"].size(), 1u);
  EXPECT_EQ(json["conflicts"][0]["rows"], (std::vector<int>{1, 4}));
  EXPECT_EQ(json["conflicts"][0]["kind"], "duplicate-conflict");
  EXPECT_NEAR(json["conflicts"][0]["label_gap"], 0.7, 1e-12);
  EXPECT_THAT(to_text(result), HasSubstr("samples 1, 4"));
  // Without labels nothing can be said about them.
  options.labels.reset();
  EXPECT_TRUE(nlohmann::json::parse(to_json(preflight(theta, options)))["stabilizable"].is_null());
  EXPECT_THAT(to_text(preflight(theta, options)), HasSubstr("UNKNOWN"));
}

/// The line of the report that opens with `subject`.
std::string verdict(const analysis::Preflight& result, const std::string& subject) {
  const std::string text = to_text(result);
  const size_t start = text.find("  " + subject);
  return start == std::string::npos ? "" : text.substr(start, text.find('\n', start) - start);
}

TEST(Report, SaysWhatTheCaseIs) {
  const Tensor theta = test::kernel_with({1, 2, 4}, 2);
  PreflightOptions options;
  options.loss = loss::sse();
  options.learning_rate = 0.2;
  EXPECT_THAT(verdict(preflight(theta, options), "gradient descent"), HasSubstr(" STABLE"));
  options.learning_rate = 0.3;
  EXPECT_THAT(verdict(preflight(theta, options), "gradient descent"), HasSubstr("OSCILLATING"));
  options.learning_rate = 1.0;
  EXPECT_THAT(verdict(preflight(theta, options), "gradient descent"), HasSubstr("UNSTABLE"));
  for (double rate : {1e-17, 0.2, 1.0, 1e6}) {
    options.learning_rate = rate;
    EXPECT_THAT(verdict(preflight(theta, options), "controlled descent"), HasSubstr(" STABLE"));
  }
  options.learning_rate = 1.0;
  EXPECT_THAT(to_text(preflight(theta, options)), HasSubstr("stay below 0.5"));
  const Tensor zero = torch::zeros({3, 3}, kDouble);
  EXPECT_THAT(verdict(preflight(zero, options), "gradient descent"), HasSubstr("FROZEN"));
  options.labels = torch::ones({3}, kDouble);
  options.outputs = torch::zeros({3}, kDouble);
  const auto frozen = nlohmann::json::parse(to_json(preflight(zero, options)));
  EXPECT_TRUE(frozen["lr_max"].is_null());      // infinite
  EXPECT_TRUE(frozen["reach_size"].is_null());  // nothing gets there
  EXPECT_EQ(frozen["conflicts"][0]["kind"], "frozen");
  EXPECT_THAT(to_text(preflight(zero, options)), Not(HasSubstr("can be brought onto the labels")));
  options.labels.reset();
  options.outputs.reset();
  options.inputs = torch::eye(3);
  EXPECT_THAT(to_text(preflight(theta, options)), HasSubstr("DISTINCT"));
  options.inputs = torch::ones({3, 3});
  EXPECT_THAT(to_text(preflight(theta, options)), HasSubstr("NOT COVERED"));
}

TEST(Preflight, TakesTheShapeOfTheKernelsOwnResult) {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(3, 64), torch::nn::Tanh(), torch::nn::Linear(64, 2));
  Tensor x = torch::randn({9, 3});
  x[7].copy_(x[3]);
  const Tensor y = torch::randn({9, 2});
  const auto ntk = kernel::empirical_ntk(net, x);
  const auto expect_rows = [](const analysis::Preflight& found) {
    EXPECT_EQ(found.outputs, 2);
    EXPECT_EQ(found.samples, 9);
    EXPECT_EQ(found.reachability.rank.value, 16);
    ASSERT_EQ(found.reach.conflicts.size(), 1U);
    EXPECT_EQ(found.reach.conflicts[0].rows, (std::vector<int64_t>{3, 7}));
    EXPECT_TRUE(found.reach.stabilizability);
  };
  PreflightOptions options;
  options.labels = y;
  expect_rows(analyze(ntk, options));
  options.labels = y.reshape({-1}).to(torch::kFloat64);  // the outputs still tell
  expect_rows(analyze(ntk, options));
  // Of a kernel without outputs whoever knows must say; a guess would name samples 6, 7, 14, 15.
  const auto modes = dynamics::decompose(ntk);
  options.outputs.reset();
  EXPECT_THAT([&] { analyze(ntk.theta, modes, options); },
              testing::ThrowsMessage<InvalidArgument>(HasSubstr("how many outputs a sample has")));
  const auto of_theta = [&](auto change) {
    PreflightOptions said = options;
    change(said);
    said.outputs = said.outputs.value_or(torch::zeros({18}));
    expect_rows(analyze(ntk.theta, modes, said));
  };
  of_theta([](auto& o) { o.outputs_per_sample = 2; });
  of_theta([&](auto& o) { o.labels = y; });
  of_theta([](auto& o) { o.outputs = torch::zeros({9, 2}); });
  of_theta([&](auto& o) { o.inputs = x; });
  options.outputs_per_sample = 3;
  EXPECT_THROW(analyze(ntk, options), InvalidArgument);
}

TEST(Preflight, RefusesBadInput) {
  const Tensor theta = test::kernel_with({1, 2, 4, 5}, 3);
  PreflightOptions options;
  options.outputs_per_sample = 3;
  EXPECT_THROW(preflight(theta, options), InvalidArgument);
  options.outputs_per_sample = 1;
  options.labels = torch::ones({3}, kDouble);
  EXPECT_THROW(preflight(theta, options), InvalidArgument);
  options.labels = torch::full({4}, NAN, kDouble);
  EXPECT_THROW(preflight(theta, options), InvalidArgument);
  options.labels = torch::ones({4}, torch::kInt64);
  EXPECT_THROW(preflight(theta, options), InvalidArgument);
  options.labels = torch::ones({4}, kDouble);
  options.outputs = torch::full({4}, INFINITY, kDouble);
  EXPECT_THROW(preflight(theta, options), InvalidArgument);
  options.outputs.reset();
  options.inputs = torch::ones({});
  EXPECT_THROW(preflight(theta, options), InvalidArgument);
  options.inputs = torch::ones({5, 2});
  EXPECT_THROW(preflight(theta, options), InvalidArgument);
  options.inputs.reset();
  options.learning_rate = 0;
  EXPECT_THROW(preflight(theta, options), InvalidArgument);
  options.learning_rate = 0.1;
  options.rho = 0;
  EXPECT_THROW(preflight(theta, options), InvalidArgument);
  options = {};
  options.loss = loss::mae();
  EXPECT_THAT([&] { analyze(theta, options); },
              testing::ThrowsMessage<InvalidArgument>(HasSubstr("it has no curvature")));
  for (const auto& loss : {loss::cross_entropy(), loss::huber(1)}) {
    options.loss = loss;
    EXPECT_THAT([&] { analyze(theta, options); },
                testing::ThrowsMessage<InvalidArgument>(HasSubstr("needs labels and outputs")));
  }
  options.labels = torch::ones({2, 2}, kDouble);
  options.outputs = torch::ones({4}, kDouble);
  EXPECT_THAT([&] { analyze(theta, options); },
              testing::ThrowsMessage<InvalidArgument>(HasSubstr("must have one shape [r, n_L]")));
}

}  // namespace
}  // namespace cdt
