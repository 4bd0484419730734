// Uses every public header of the installed library, and fails if the controller does not do its
// job.
#include <torch/nn.h>

#include <cstdio>
#include <fstream>

#include "all_headers.h"

int main() {
  torch::nn::Sequential net(torch::nn::Linear(3, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  const auto x = torch::randn({8, 3});
  const auto ntk = cdt::kernel::empirical_ntk(net, x);
  const auto report = cdt::analysis::analyze(ntk, {});
  std::printf("cdt %s\n%s", cdt::kVersion, cdt::analysis::to_text(report).c_str());

  std::ofstream("houses.csv") << cdt::data::make_houses(20, 1);
  const auto table = cdt::data::read_csv("houses.csv");
  cdt::data::PreprocessOptions options;
  options.targets = {"price"};
  const auto features = cdt::data::fit_preprocess(table, options).transform(table);
  const std::string page = cdt::report::to_html({"A page", {}, {}});

  cdt::run::Options run;
  run.data.file = "houses.csv";
  run.data.targets = {"price"};
  run.data.goal = cdt::study::Goal::kFit;
  run.network.hidden = {16};
  run.training.steps = 5;
  run.folder = "run";
  run.overwrite = true;
  const auto done = cdt::run::train(run);
  std::printf("%s\n", done.record.in_words.c_str());
  return report.controller.radius.upper < 1 && features.size(1) == 8 && page.size() > 100'000 &&
                 done.result.train_loss < 1 && done.record.errors
             ? 0
             : 1;
}
