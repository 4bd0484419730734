// The second half of the pre-flight report: names in the JSON, sentences that fit the case.
#include <cdt/analysis/preflight.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/simulation.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/compare.h"

namespace cdt {
namespace {

using analysis::Preflight;
using testing::HasSubstr;
using testing::Not;
using torch::Tensor;

using test::kDouble;

Preflight preflight(const Tensor& theta, const Tensor& labels) {
  analysis::PreflightOptions options;
  options.loss = loss::sse();
  options.learning_rate = 0.1;
  options.outputs_per_sample = 1;
  options.labels = labels;
  options.outputs = torch::zeros_like(labels);
  return analysis::analyze(
      theta, dynamics::decompose(theta, tol::rank_of_stored(theta.size(0), torch::kFloat64)),
      options);
}

analysis::TrialFindings trial(bool controlled, std::optional<int64_t> kc) {
  analysis::TrialFindings t;
  t.controlled = controlled;
  t.steps = 20;
  t.lipschitz = 0.9;
  t.linearization_error = controlled ? 0.02 : 0.01;
  t.relative_error = 0.05;
  t.lagrange_bound = 0.03;
  t.hessian_norm = 1.5;
  t.kc = kc;
  return t;
}

TEST(Findings, JsonHasTheStableNames) {
  const Tensor theta = test::kernel_with({0.5, 1, 2, 4}, 1);
  auto result = preflight(theta, torch::ones({4}, kDouble));
  auto json = nlohmann::json::parse(to_json(result));
  for (const char* name : {"lipschitz", "linearization_error", "lagrange_bound", "hessian_norm",
                           "kc", "equilibrium", "mae_radius", "lyapunov_lr_max", "gain_margin"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_TRUE(json["lipschitz"].is_null());  // no trial yet
  EXPECT_FALSE(json.contains("forecast"));
  EXPECT_EQ(json["equilibrium"]["kind"], "none");
  EXPECT_NEAR(json["mae_radius"], 0.1 / 4 * theta.abs().sum(1).max().item<double>(), 1e-12);
  const Tensor e = -torch::ones({4}, kDouble);
  const Tensor move = theta.mv(e);
  EXPECT_NEAR(json["lyapunov_lr_max"],
              2 * torch::dot(e, move).item<double>() / move.square().sum().item<double>(), 1e-12);
  EXPECT_LT(json["gain_margin"]["lower"], 1);
  EXPECT_GT(json["gain_margin"]["upper"], 1);
  EXPECT_EQ(json["rates"].size(), 4u);

  result.outlook.trials = {trial(false, std::nullopt), trial(true, 7)};
  const auto problem =
      dynamics::modal_problem(dynamics::decompose(theta, tol::rank_of_stored(4, torch::kFloat64)),
                              e, theta.narrow(0, 0, 2), torch::ones({2}, kDouble));
  result.outlook.forecast = analysis::summarize(control::forecast(problem, loss::sse()));
  json = nlohmann::json::parse(to_json(result));
  EXPECT_EQ(json["kc"], 7);  // of CDT, which leads
  EXPECT_EQ(json["linearization_error"], 0.02);
  EXPECT_EQ(json["lagrange_bound"], 0.03);
  EXPECT_EQ(json["hessian_norm"], 1.5);
  EXPECT_EQ(json["lipschitz"], 0.9);
  EXPECT_EQ(json["trials"][0]["method"], "gd");
  EXPECT_TRUE(json["trials"][0]["kc"].is_null());
  for (const char* name : {"best_lr", "best_p", "best_step", "best_val_loss", "method"}) {
    EXPECT_TRUE(json["forecast"].contains(name)) << name;
  }
  EXPECT_EQ(json["forecast"]["gd"]["method"], "gd");
  EXPECT_LE(json["forecast"]["best_val_loss"], json["forecast"]["gd"]["best_val_loss"]);
}

TEST(Findings, TextSaysWhatTheCaseIs) {
  const Tensor theta = test::kernel_with({0.5, 1, 2, 4}, 1);
  auto result = preflight(theta, torch::ones({4}, kDouble));
  EXPECT_THAT(to_text(result), Not(HasSubstr("trial")));
  EXPECT_THAT(to_text(result), Not(HasSubstr("equilibrium")));
  EXPECT_THAT(to_text(result), HasSubstr("may be scaled by"));
  result.outlook.trials = {trial(false, std::nullopt), trial(true, std::nullopt)};
  EXPECT_THAT(to_text(result), HasSubstr("behaved as its local model said"));
  result.outlook.trials[1].relative_error = 0.3;
  EXPECT_THAT(to_text(result), HasSubstr("DRIFTS"));
  EXPECT_THAT(to_text(result), Not(HasSubstr("behaved as its local model said")));
  result.outlook.trials = {trial(false, std::nullopt), trial(true, 7)};
  EXPECT_THAT(to_text(result), HasSubstr("ends near step 7"));
  EXPECT_THAT(to_text(result), HasSubstr("re-linearize"));
  result.outlook.trials[0].diverged = true;
  EXPECT_THAT(to_text(result), HasSubstr("DIVERGED"));
  EXPECT_THAT(to_text(preflight(theta, torch::zeros({4}, kDouble))), HasSubstr("LEARNED"));
  Tensor J = torch::randn({3, 9}, kDouble);
  J[2].copy_(J[0]);
  const auto torn = preflight(J.mm(J.t()), torch::tensor({1.0, 0.0, -1.0}, kDouble));
  EXPECT_THAT(to_text(torn), HasSubstr("STUCK"));
  EXPECT_THAT(to_text(torn), HasSubstr("samples 0, 2 are not learned"));
  // The verdicts come first, the numbers last.
  const std::string text = to_text(result);
  EXPECT_LT(text.find("trial of CDT"), text.find("What it means"));
  EXPECT_LT(text.find("What to do"), text.find("Lipschitz estimate"));
}

}  // namespace
}  // namespace cdt
