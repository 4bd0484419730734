// What the core's commands promise at the edges: extreme rates and weights, singular kernels, files
// that collide, output that goes nowhere.
#include <cdt/core/npy.h>
#include <cdt/nn/mlp.h>
#include <cdt/nn/saved_model.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/compare.h"
#include "support/device.h"
#include "support/program.h"

namespace cdt {
namespace {

using nlohmann::json;
using test::relative_error;
using testing::HasSubstr;
using torch::Tensor;

using test::kDouble;

class Certificate : public test::Program {
 protected:
  json report(const std::string& arguments) {
    const Result result = cdt(arguments + " --json -");
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.err;
    return result.code == 0 ? json::parse(result.out) : json();
  }
};

TEST_F(Certificate, IsOfTheControllerThatIsAskedFor) {
  save("theta.npy", test::kernel_with({0.1, 0.5, 1}, 1));
  const auto of = [&](const std::string& more) {
    return report("analyze --kernel theta.npy --loss sse --lr 0.5" + more);
  };
  EXPECT_EQ(of(""), of(" --controller lqr"));
  EXPECT_FALSE(of("").contains("controller"));
  const json damped = of(" --controller damped");
  EXPECT_THAT(damped["controller"]["name"].get<std::string>(), HasSubstr("damped"));
  EXPECT_NEAR(damped["radius_cdt"], 1 / (1 + 0.05 * std::sqrt(11)), 1e-12);
  EXPECT_NEAR(of(" --controller descent")["radius_cdt"], 1 - 0.05, 1e-12);
  expect_wrong_usage("analyze --kernel theta.npy --lr 0.1 --controller lqg", "lqr,damped,descent");
}

TEST_F(Certificate, HoldsFromTinyToHugeRatesAndWeights) {
  const Tensor theta = test::random_kernel(12, 30, 100.0, 1);
  save("theta.npy", theta);
  for (const char* setting : {"--lr 0.01", "--lr 1e4", "--lr 1e6", "--lr 1e8", "--lr 1e-300",
                              "--lr 0.1 --p 1e300", "--lr 1e4 --p 1e290", "--lr 0.1 --p 1e-300"}) {
    SCOPED_TRACE(setting);
    const json found =
        report(std::string("design --kernel theta.npy --loss sse --out gain.npy ") + setting);
    EXPECT_LE(found["riccati_residual"], 1e-9);
    EXPECT_LE(found["radius_cdt"], 1);
    EXPECT_TRUE(torch::isfinite(load_npy(folder_ / "gain.npy")).all().item<bool>());
  }
  expect_wrong_usage("design --kernel theta.npy --lr 0.1 --p 1e307 --out none.npy", "overflow");
  EXPECT_FALSE(exists("none.npy"));
  for (const double scale : {1e-200, 1e100}) {
    SCOPED_TRACE(scale);
    save("scaled.npy", scale * theta);
    EXPECT_LE(report("design --kernel scaled.npy --lr 0.1 --out gain.npy")["riccati_residual"],
              1e-9);
  }
  // Slow modes beside huge ones.
  save("wide.npy", test::kernel_with({1e-8, 1e-6, 1e-3, 0.02, 0.5, 1}, 1));
  for (const char* rate : {"1e8", "1e10", "1e12"}) {
    SCOPED_TRACE(rate);
    EXPECT_LE(report(std::string("design --kernel wide.npy --loss sse --out gain.npy --lr ") +
                     rate)["riccati_residual"],
              1e-9);
  }
  EXPECT_EQ(report("analyze --kernel theta.npy --q 1e10 --p 1e-300")["gain_slow_modes"], 1e155);
  // √(1 + q/p) − 1 without cancellation.
  EXPECT_NEAR(
      report("analyze --kernel theta.npy --p 1e20")["gain_slow_modes"].get<double>() / 5e-21, 1,
      1e-12);
}

TEST_F(Certificate, IsOfAModelAsOfItsKernel) {
  nn::MlpOptions options;
  options.inputs = 3;
  options.hidden = {20};
  nn::save_model(folder_ / "model.safetensors", nn::Mlp(options, 4));
  torch::manual_seed(3);
  Tensor x = torch::randn({10, 3});
  x[9] = x[2];
  save("x.npy", x);
  ASSERT_EQ(cdt("kernel --model model.safetensors --inputs x.npy --out theta.npy").code, 0);
  const json direct = report(
      "design --model model.safetensors --inputs x.npy --lr 0.1 --loss sse --out direct.npy");
  const json by_file = report("design --kernel theta.npy --lr 0.1 --loss sse --out by_file.npy");
  EXPECT_EQ(direct["rank"], 9);  // a sample that stands twice: no label parts the two
  EXPECT_EQ(by_file["rank"], 9);
  EXPECT_EQ(direct["reachable"], false);
  EXPECT_LE(relative_error(load_npy(folder_ / "direct.npy"), load_npy(folder_ / "by_file.npy")),
            1e-9);
  // Without labels nothing is known of their distance.
  ASSERT_EQ(direct["conflicts"].size(), 1U);
  EXPECT_EQ(direct["conflicts"][0]["kind"], "duplicate");
  EXPECT_TRUE(direct["conflicts"][0]["label_gap"].is_null());
}

TEST_F(Certificate, ReadsBordersAsTheyAre) {
  const auto text_of = [&](const Tensor& theta, const std::string& rate) {
    save("theta.npy", theta);
    return cdt("analyze --kernel theta.npy --loss sse --lr " + rate).out;
  };
  const Tensor I = torch::eye(3, kDouble);
  EXPECT_THAT(text_of(I, "1"), HasSubstr("every mode shrinks without oscillation"));
  EXPECT_THAT(text_of(I, "1.5"), HasSubstr("OSCILLATING"));
  const std::string marginal = text_of(I, "2");
  EXPECT_THAT(marginal, HasSubstr("MARGINAL"));
  EXPECT_THAT(marginal, testing::Not(HasSubstr("Nothing stands in the way")));
  EXPECT_THAT(text_of(I, "2.5"), HasSubstr("UNSTABLE"));
  EXPECT_THAT(text_of(1e-8 * I, "1"), HasSubstr("κ of gradient descent 1 − 1e-08"));
  save("theta.npy", torch::diag(torch::tensor({1.0, 1e-14}, kDouble)));
  EXPECT_EQ(report("analyze --kernel theta.npy --lr 0.001 --loss sse")["exponentially_stable"],
            true);
  save("theta.npy", 0 * I);
  EXPECT_EQ(report("analyze --kernel theta.npy --lr 0.1")["radius_cdt"], 1);
}

TEST_F(Certificate, NoFileIsWrittenTwiceOrOverAnInput) {
  const Tensor theta = test::random_kernel(6, 12, 1.0, 2);
  save("theta.npy", theta);
  const std::string design = "design --kernel theta.npy --lr 0.1 ";
  expect_wrong_usage(design + "--out a.npy --steering a.npy",
                     "--steering and --out name the same file");
  expect_wrong_usage(design + "--out a.npy --json ./a.npy", "--json and --out name the same file");
  expect_wrong_usage(design + "--out ./theta.npy", "--out and --kernel name the same file");
  expect_wrong_usage("analyze --kernel theta.npy --json theta.npy", "name the same file");
  EXPECT_TRUE(torch::equal(load_npy(folder_ / "theta.npy"), theta));
  write("h.csv", "a,b\n1,2\n3,4\n");
  for (const char* command :
       {"data describe h.csv", "data make h.csv", "predict run1 h.csv --out p.csv",
        "analyze h.csv --target b", "train h.csv --target b"}) {
    expect_wrong_usage(command + std::string(" --json ./h.csv"), "--json and FILE name the same");
  }
  expect_wrong_usage("report run1 --out r.html --json r.html", "--json and --out name the same");
  EXPECT_EQ(slurp("h.csv"), "a,b\n1,2\n3,4\n");
}

TEST_F(Certificate, StatesItsProblemAndItsMargins) {
  save("theta.npy", torch::diag(torch::tensor({0.5, 1.0, 4.0}, kDouble)));
  save("q.npy", torch::tensor({1.0, 2.0, 3.0}, kDouble));
  const std::string design = "design --kernel theta.npy --lr 0.3 --loss half-mse --out g.npy";
  for (const char* weights : {"", " --Q q.npy"}) {
    SCOPED_TRACE(weights);
    const Result result = cdt(design + weights + " --p 0.2");
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out,
                HasSubstr("A = I − S, B = S = αc_LΘ, α = 0.3, c_L = 0.3333 (half-mse)"));
    EXPECT_THAT(result.out,
                HasSubstr(*weights == 0 ? "Q = 1·I, R = 0.2·I" : "Q = q.npy, R = 0.2·I"));
    EXPECT_THAT(result.out, HasSubstr("kernel margin  stable while the kernel is scaled by less"));
    EXPECT_THAT(result.out, HasSubstr("(5 without control)"));  // 2 / (0.3 · 4 / 3)
    EXPECT_EQ(result.out.find("gain margin") != std::string::npos, *weights == 0);
  }
}

TEST_F(Certificate, OutputThatGoesNowhereIsAFailure) {
  const std::string full = test::make_device(folder_, "full");
  CDT_NEEDS_DEVICE(full);
  save("theta.npy", test::random_kernel(6, 12, 1.0, 3));
  for (const char* arguments : {"design --kernel theta.npy --lr 0.1 --out g.npy --json -",
                                "analyze --kernel theta.npy", "--help", "info"}) {
    SCOPED_TRACE(arguments);
    const Result result = cdt(arguments, full);
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"));
  }
}

TEST_F(Certificate, SaysWhichFileAndWhichOption) {
  save("theta.npy", test::random_kernel(6, 12, 1.0, 4));
  expect_wrong_usage("design --lr 0.1 --out g.npy", "cdt: a kernel file (--kernel) or a model");
  expect_wrong_usage("analyze --kernel theta.npy --target price",
                     "--target is for a CSV file; it does not go with --kernel");
  expect_wrong_usage("analyze --kernel theta.npy --hidden 8", "--hidden is for a CSV file");
  expect_wrong_usage("analyze --kernel theta.npy --lr 1e300", "makes steps αc_Lλ of up to 3.33");
  save("negative.npy", -torch::eye(3, kDouble));
  expect_wrong_usage("design --kernel negative.npy --lr 0.1 --out g.npy",
                     "negative.npy: kernel must be positive semidefinite");
  // Weights of the command line stand instead of those of a file.
  std::ofstream(folder_ / "c.toml") << "p = 0.5\n";
  save("r.npy", torch::ones({6}, kDouble));
  EXPECT_EQ(
      report("design --kernel theta.npy --lr 0.1 --out g.npy --config c.toml --R r.npy")["solver"],
      "doubling");
}

}  // namespace
}  // namespace cdt
