// The program as a user runs it: exit codes, files, JSON, error messages.
#include <cdt/core/npy.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/mlp.h>
#include <cdt/nn/saved_model.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/compare.h"
#include "support/device.h"
#include "support/program.h"

namespace cdt {
namespace {

using nlohmann::json;
using test::relative_error;
using testing::AllOf;
using testing::HasSubstr;
using torch::Tensor;

using test::kDouble;

using Program = test::Program;

TEST_F(Program, HelpsEveryCommandWithAnExample) {
  /// Names in the list of what a command has below it.
  const auto listed = [&](const std::string& command) {
    const Result result = cdt(command + "--help");
    EXPECT_EQ(result.code, 0);
    std::vector<std::string> names;
    std::istringstream lines(
        result.out.substr(std::min(result.out.find("Subcommands:\n"), result.out.size())));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line) && line.starts_with("  ")) {
      names.push_back(command + line.substr(2, line.find(' ', 2) - 2));
    }
    return names;
  };
  std::vector<std::string> commands = listed("");
  EXPECT_THAT(commands, testing::IsSupersetOf({"analyze", "compare", "data", "train", "verify"}));
  for (const std::string& name : listed("data ")) commands.push_back(name);
  EXPECT_THAT(commands, testing::IsSupersetOf({"data make", "data make-pictures"}));
  for (const std::string& command : commands) {
    const Result result = cdt(command + " --help");
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, AllOf(HasSubstr("Example"), HasSubstr("cdt " + command)));
  }
  EXPECT_THAT(cdt("--version").out, HasSubstr("cdt 0."));
}

TEST_F(Program, DesignWritesAGainThatSolvesTheRiccatiEquation) {
  const int64_t n = 15;
  const Tensor theta = test::random_kernel(n, 40, 3.0, 1);
  save("theta.npy", theta);
  const Result result =
      cdt("design --kernel theta.npy --lr 0.1 --loss sse --p 0.1 --out gain.npy --steering G.npy "
          "--json -");
  ASSERT_EQ(result.code, 0) << result.err;
  const json certificate = json::parse(result.out);
  EXPECT_EQ(certificate["n"], n);
  EXPECT_EQ(certificate["rank"], n);
  EXPECT_EQ(certificate["reachable"], true);
  EXPECT_NEAR(certificate["lambda_max"], 3.0, 1e-10);
  EXPECT_LE(certificate["riccati_residual"], 1e-12);
  EXPECT_LT(certificate["radius_cdt"], 1);
  // The equation, with P from the Lyapunov sum of the closed loop: P = Σ (Aᶜᵀ)ᵏ(Q + KᵀRK)(Aᶜ)ᵏ.
  const Tensor K = load_npy(folder_ / "gain.npy");
  const Tensor I = torch::eye(n, kDouble);
  const Tensor S = 0.1 * theta;
  Tensor power = I - S - S.mm(K);
  EXPECT_NEAR(torch::linalg_eigvals(power).abs().max().item<double>(),
              certificate["radius_cdt"].get<double>(), 1e-9);
  Tensor P = I + 0.1 * K.t().mm(K);
  for (int k = 0; k < 40; ++k) {  // doubling the number of terms
    P = P + power.t().mm(P).mm(power);
    power = power.mm(power);
  }
  const Tensor gain = torch::linalg_solve(0.1 * I + S.mm(P).mm(S), S.mm(P).mm(I - S));
  EXPECT_LE(relative_error(K, gain), 1e-9);
  EXPECT_LE(relative_error(load_npy(folder_ / "G.npy"), I + K), 1e-12);

  // The same through weights from files, by the general solver.
  save("q.npy", torch::ones({n}, kDouble));
  save("r.npy", 0.1 * I);
  const Result general =
      cdt("design --kernel theta.npy --lr 0.1 --loss sse --Q q.npy --R r.npy --out gain2.npy "
          "--json c.json");
  ASSERT_EQ(general.code, 0) << general.err;
  EXPECT_LE(relative_error(load_npy(folder_ / "gain2.npy"), K), 1e-9);
  const json doubling = parse("c.json");
  EXPECT_EQ(doubling["solver"], "doubling");
  EXPECT_GT(doubling["iterations"], 1);
  EXPECT_THAT(general.out, HasSubstr("gain2.npy"));
}

TEST_F(Program, KernelAndAnalyzeTakeASavedModel) {
  nn::MlpOptions options;
  options.inputs = 3;
  options.hidden = {30, 20};
  options.outputs = 2;
  nn::Mlp net(options, 4);
  nn::save_model(folder_ / "model.safetensors", net);
  torch::manual_seed(2);
  Tensor x = torch::randn({12, 3});
  x[11] = x[4];
  save("x.npy", x);
  save("other.npy", torch::randn({5, 3}));
  Tensor y = torch::randn({12, 2});
  save("y.npy", y);

  Result result =
      cdt("kernel --model model.safetensors --inputs x.npy --out theta.npy --save-outputs y0.npy "
          "--json k.json");
  ASSERT_EQ(result.code, 0) << result.err;
  const Tensor theta = load_npy(folder_ / "theta.npy");
  EXPECT_LE(relative_error(theta, kernel::empirical_ntk(net, x).theta), 1e-6);
  EXPECT_LE(relative_error(load_npy(folder_ / "y0.npy"), net->forward(x)), 1e-6);
  EXPECT_EQ(parse("k.json")["outputs"], 2);
  result =
      cdt("kernel --model model.safetensors --inputs x.npy --by-rows --memory 1 --out rows.npy "
          "--quiet");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_LE(relative_error(load_npy(folder_ / "rows.npy"), theta), 1e-5);
  ASSERT_EQ(cdt("kernel --model model.safetensors --inputs x.npy --other-inputs other.npy --out "
                "cross.npy")
                .code,
            0);
  EXPECT_EQ(load_npy(folder_ / "cross.npy").sizes(), (std::vector<int64_t>{24, 10}));

  // The model's own kernel, and the same from files.
  const Result direct =
      cdt("analyze --model model.safetensors --inputs x.npy --labels y.npy --lr 0.1 --json -");
  ASSERT_EQ(direct.code, 0) << direct.err;
  const Result files =
      cdt("analyze --kernel theta.npy --labels y.npy --outputs y0.npy --lr 0.1 --json -");
  ASSERT_EQ(files.code, 0) << files.err;
  for (const std::string& text : {direct.out, files.out}) {
    const json report = json::parse(text);
    EXPECT_EQ(report["n"], 24);
    EXPECT_EQ(report["samples"], 12);
    EXPECT_EQ(report["rank"], 22);
    EXPECT_EQ(report["reachable"], false);
    EXPECT_EQ(report["stabilizable"], false);
    ASSERT_EQ(report["conflicts"].size(), 1u);
    EXPECT_EQ(report["conflicts"][0]["rows"], (std::vector<int>{4, 11}));
    EXPECT_EQ(report["conflicts"][0]["kind"], "duplicate-conflict");
  }
  EXPECT_THAT(cdt("analyze --kernel theta.npy --lr 0.1").out,
              AllOf(HasSubstr("What it means"), HasSubstr("UNKNOWN")));
}

TEST_F(Program, TakesKernelsStoredInFloat32) {
  const Tensor theta = test::random_kernel(10, 6, 2.0, 3).to(torch::kFloat32);
  save("theta.npy", theta);
  const Result result = cdt("analyze --kernel theta.npy --lr 0.1 --json -");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["rank"], 6);
}

TEST_F(Program, InfoNamesTheMachine) {
  const Result result = cdt("info --threads 1 --json -");
  ASSERT_EQ(result.code, 0) << result.err;
  const json info = json::parse(result.out);
  EXPECT_EQ(info["threads"], 1);
  EXPECT_GT(info["gemm_gflops_float64"], 0);
  EXPECT_THAT(cdt("info").out, HasSubstr("LibTorch"));
}

TEST_F(Program, MakesAndDescribesData) {
  Result result = cdt("data make houses.csv --rows 50 --seed 3");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("houses.csv"), HasSubstr("50 rows")));
  result = cdt("data make again.csv --rows 50 --seed 3 --json -");
  EXPECT_EQ(json::parse(result.out)["rows"], 50);
  EXPECT_EQ(slurp("houses.csv"), slurp("again.csv"));
  EXPECT_EQ(cdt("data make again.csv --rows 50 --seed 4 --quiet").out, "");
  EXPECT_NE(slurp("houses.csv"), slurp("again.csv"));

  result = cdt("data describe --target price --json d.json houses.csv");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("50 rows × 9 columns"), HasSubstr("district")));
  const json description = parse("d.json");
  EXPECT_EQ(description["columns"].size(), 9u);
  EXPECT_EQ(description["columns"][4]["type"], "text");
  EXPECT_EQ(description["conflicts"].size(), 0u);

  std::ofstream(folder_ / "odd.csv") << "1;01;5;-\n1;02;6;7\n2;02;-;8\n";
  result =
      cdt("data describe odd.csv --no-header --delimiter ';' --missing - --text column2 "
          "--drop column4 --target column3 --json -");
  ASSERT_EQ(result.code, 0) << result.err;
  const json odd = json::parse(result.out);
  ASSERT_EQ(odd["columns"].size(), 3u);
  EXPECT_EQ(odd["columns"][1]["type"], "text");
  EXPECT_EQ(odd["columns"][2]["missing"], 1);
  result =
      cdt("data describe odd.csv --no-header --delimiter ';' --missing - "
          "--drop column2,column4 --target column3 --json -");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["conflicts"][0]["lines"], (std::vector<int>{1, 2}));

  expect_wrong_usage("data", "subcommand");
  expect_wrong_usage("data make", "FILE");
  expect_wrong_usage("data make h.csv --rows 0", "--rows");
  expect_wrong_usage("data make no/such/h.csv", "no/such");
  expect_wrong_usage("data describe", "FILE");
  expect_wrong_usage("data describe absent.csv", "absent.csv");
  expect_wrong_usage("data describe houses.csv --target cost", "\"cost\"");
  expect_wrong_usage("data describe houses.csv --drop cost", "\"cost\"");
  expect_wrong_usage("data describe houses.csv --numeric district", "houses.csv:2");
  expect_wrong_usage("data describe houses.csv --numeric area --text area", "both");
  expect_wrong_usage("data describe houses.csv --delimiter ab", "--delimiter");
  std::ofstream(folder_ / "ragged.csv") << "a,b\n1,2\n3\n";
  expect_wrong_usage("data describe ragged.csv", "ragged.csv:3");
}

TEST_F(Program, TakesOptionsOfEveryCommandFromOneFile) {
  std::ofstream(folder_ / "c.toml") << "target = 'price'\nhidden = [8]\nthreads = 1\n"
                                       "[make]\nfile = 'h.csv'\nrows = 40\n"
                                       "[train]\nfile = 'h.csv'\nout = 'r'\nsteps = 3\n"
                                       "[predict]\nrun = 'r'\nfile = 'h.csv'\nout = 'p.csv'\n"
                                       "[analyze]\nfile = 'h.csv'\ntrial_steps = 2\n";
  EXPECT_EQ(cdt("data make --config c.toml").code, 0);
  EXPECT_EQ(cdt("train --config c.toml --no-analysis").code, 0);
  EXPECT_EQ(cdt("predict --config c.toml").code, 0);
  EXPECT_EQ(cdt("predict r h.csv --config c.toml --out q.csv").code, 0);  // flags and places win
  EXPECT_EQ(slurp("p.csv"), slurp("q.csv"));
  const Result report = cdt("analyze --config c.toml --forecast --json -");
  ASSERT_EQ(report.code, 0) << report.err;
  const json findings = json::parse(report.out);
  EXPECT_EQ(findings["samples"], 28);
  EXPECT_EQ(findings["trials"].size(), 2U);
  EXPECT_GT(findings["forecast"]["best_lr"], 0);
  for (const char* name : {"lipschitz", "linearization_error", "lagrange_bound", "hessian_norm",
                           "kc", "equilibrium", "mae_radius", "lyapunov_lr_max", "gain_margin"}) {
    EXPECT_TRUE(findings.contains(name)) << name;
  }
  expect_wrong_usage("analyze h.csv --target price --train-fraction 1 --forecast", "validation");
}

TEST_F(Program, SaysWhatIsWrong) {
  const Tensor good = test::random_kernel(6, 12, 1.0, 5);
  save("good.npy", good);
  expect_wrong_usage("", "cdt train houses.csv --target price");
  expect_wrong_usage("tune", "tune");
  expect_wrong_usage("data make homes.csv --grow 3 --row 9",
                     "not expected: --grow 3 --row 9; did you mean --rows?\ncdt data make --help");
  expect_wrong_usage("analyze", "a CSV file, arrays (--inputs, --labels), a kernel file");
  expect_wrong_usage("design --kernel good.npy --out k.npy", "--lr");
  expect_wrong_usage("analyze --lr 0.1", "--kernel");
  expect_wrong_usage("analyze --kernel good.npy --lr 0", "--lr");
  expect_wrong_usage("analyze --kernel good.npy --lr nan", "--lr: expected a number above 0");
  expect_wrong_usage("analyze --kernel good.npy --lr 0.1 --loss mae", "mae");
  expect_wrong_usage("analyze --kernel good.npy --model m --inputs x --lr 0.1", "--model");
  expect_wrong_usage("analyze --model m --lr 0.1", "--inputs");
  expect_wrong_usage("analyze --kernel absent.npy --lr 0.1", "absent.npy");
  expect_wrong_usage("design --kernel good.npy --lr 0.1", "--out");
  expect_wrong_usage("design --kernel good.npy --lr 0.1 --out no/such/folder/gain.npy",
                     "no/such/folder");
  expect_wrong_usage("kernel --model absent --inputs good.npy --out t.npy", "absent");

  save("vector.npy", good[0].clone());
  expect_wrong_usage("analyze --kernel vector.npy --lr 0.1", "square matrix");
  Tensor bad = good.clone();
  bad[1][2] += 1;
  save("asymmetric.npy", bad);
  expect_wrong_usage("analyze --kernel asymmetric.npy --lr 0.1", "symmetric");
  save("indefinite.npy", good - torch::eye(6, kDouble));
  expect_wrong_usage("analyze --kernel indefinite.npy --lr 0.1", "positive semidefinite");
  bad = good.clone();
  bad[3][3] = NAN;
  save("nan.npy", bad);
  expect_wrong_usage("analyze --kernel nan.npy --lr 0.1", "nan.npy");
  save("empty.npy", torch::empty({0, 0}, kDouble));
  expect_wrong_usage("analyze --kernel empty.npy --lr 0.1", "square matrix");
  std::ofstream(folder_ / "text.npy") << "not a kernel";
  expect_wrong_usage("analyze --kernel text.npy --lr 0.1", "text.npy");

  save("y5.npy", torch::ones({5}, kDouble));
  expect_wrong_usage("analyze --kernel good.npy --labels y5.npy --lr 0.1", "6 rows");
  save("ynan.npy", torch::full({6}, NAN, kDouble));
  expect_wrong_usage("analyze --kernel good.npy --labels ynan.npy --lr 0.1", "ynan.npy");
  expect_wrong_usage("analyze --kernel good.npy --outputs-per-sample 4 --lr 0.1", "4 outputs");
  save("y0.npy", torch::ones({3, 2}, kDouble));
  save("transposed.npy", torch::ones({2, 3}, kDouble));
  save("row.npy", torch::ones({1, 6}, kDouble));
  expect_wrong_usage("analyze --kernel good.npy --outputs y0.npy --labels transposed.npy --lr 0.1",
                     "2 outputs a sample");
  expect_wrong_usage("analyze --kernel good.npy --labels row.npy --lr 0.1", "--outputs-per-sample");
  expect_wrong_usage("analyze --kernel good.npy --lr 1e160", "overflow");
  save("q.npy", -torch::ones({6}, kDouble));
  expect_wrong_usage("design --kernel good.npy --lr 0.1 --Q q.npy --out g.npy",
                     "Q must be positive semidefinite");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "g.npy"));

  nn::MlpOptions options;
  options.inputs = 3;
  nn::save_model(folder_ / "model.safetensors", nn::Mlp(options, 1));
  save("x4.npy", torch::ones({5, 4}));
  expect_wrong_usage("kernel --model model.safetensors --inputs x4.npy --out t.npy", "[r, 3]");
  save("xnan.npy", torch::full({5, 3}, NAN));
  expect_wrong_usage("analyze --model model.safetensors --inputs xnan.npy --lr 0.1", "xnan.npy");
  save("x0.npy", torch::empty({0, 3}));
  expect_wrong_usage("kernel --model model.safetensors --inputs x0.npy --out t.npy", "x0.npy");
  if (!torch::cuda::is_available()) expect_wrong_usage("info --device cuda", "CUDA");
}

TEST_F(Program, AFullDiskIsAnErrorAndLosesNothing) {
  const std::string full = test::make_device(folder_, "full");
  CDT_NEEDS_DEVICE(full);
  save("good.npy", test::random_kernel(6, 12, 1.0, 6));
  const Result result = cdt("design --kernel good.npy --lr 0.1 --out " + full);
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr(full));
}

TEST_F(Program, NumbersThatRefuseAreFailures) {
  save("theta.npy", torch::diag(torch::tensor({0.5, 1.0, 4.0}, kDouble)));
  save("q.npy", torch::tensor({1.0, 1.0, 0.0}, kDouble));
  const Result result = cdt("design --kernel theta.npy --lr 1 --loss sse --Q q.npy --out gain.npy");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("not detectable"));
}

}  // namespace
}  // namespace cdt
