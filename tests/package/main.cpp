// Uses every public header of the installed library, and fails if the controller does not do its
// job.
#include <cdt/analysis/boundedness.h>
#include <cdt/analysis/equilibrium.h>
#include <cdt/analysis/findings.h>
#include <cdt/analysis/preflight.h>
#include <cdt/analysis/reachability.h>
#include <cdt/analysis/report.h>
#include <cdt/analysis/robustness.h>
#include <cdt/analysis/stability.h>
#include <cdt/analysis/validity.h>
#include <cdt/control/augmented_view.h>
#include <cdt/control/cross_entropy.h>
#include <cdt/control/detectability.h>
#include <cdt/control/finite_horizon.h>
#include <cdt/control/forecast.h>
#include <cdt/control/general.h>
#include <cdt/control/riccati.h>
#include <cdt/control/spectral.h>
#include <cdt/control/steering.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/npy.h>
#include <cdt/core/safetensors.h>
#include <cdt/core/tolerance.h>
#include <cdt/core/version.h>
#include <cdt/data/csv.h>
#include <cdt/data/describe.h>
#include <cdt/data/houses.h>
#include <cdt/data/preprocess.h>
#include <cdt/data/split.h>
#include <cdt/data/table.h>
#include <cdt/data/targets.h>
#include <cdt/dynamics/bounds.h>
#include <cdt/dynamics/forecast.h>
#include <cdt/dynamics/local_model.h>
#include <cdt/dynamics/loss.h>
#include <cdt/dynamics/loss_linearization.h>
#include <cdt/dynamics/spectrum.h>
#include <cdt/kernel/curvature.h>
#include <cdt/kernel/linearization.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/operator.h>
#include <cdt/kernel/path.h>
#include <cdt/kernel/products.h>
#include <cdt/nn/conv.h>
#include <cdt/nn/descent_pass.h>
#include <cdt/nn/mlp.h>
#include <cdt/nn/saved_model.h>
#include <cdt/report/page.h>
#include <cdt/report/run_page.h>
#include <cdt/report/sweep_page.h>
#include <cdt/train/trainer.h>

#include <cstdio>

int main() {
  torch::nn::Sequential net(torch::nn::Linear(3, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  const auto x = torch::randn({8, 3});
  const auto ntk = cdt::kernel::empirical_ntk(net, x);
  const auto spectrum =
      cdt::dynamics::decompose(ntk.theta, cdt::tol::rank_of_computed(8, torch::kFloat32));
  const auto report = cdt::analysis::analyze(ntk.theta, spectrum, {});
  std::printf("cdt %s\n%s", cdt::kVersion, cdt::analysis::to_text(report).c_str());

  cdt::write_file_atomically("houses.csv", {cdt::data::make_houses(20, 1)});
  const auto table = cdt::data::read_csv("houses.csv");
  cdt::data::PreprocessOptions options;
  options.targets = {"price"};
  const auto features = cdt::data::fit_preprocess(table, options).transform(table);
  const std::string page = cdt::report::to_html({"A page", {}, {}});
  return report.radius_cdt < 1 && features.size(1) == 8 && page.size() > 100'000 ? 0 : 1;
}
