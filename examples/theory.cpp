// The paper's theory on one network: the full pre-flight report with a trial of training and a
// forecast, then classification under cross entropy. docs/explanation/mathematics.md quotes its
// output.
#include <cdt/analysis/preflight.h>
#include <cdt/control/controller.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/loss_linearization.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/path.h>
#include <cdt/kernel/products.h>
#include <torch/nn.h>

#include <cstdio>

namespace {

using torch::Tensor;
const auto kLoss = cdt::loss::mse();

torch::nn::Sequential network(int64_t outputs) {
  torch::manual_seed(2);
  torch::nn::Sequential net(torch::nn::Linear(4, 256), torch::nn::Tanh(),
                            torch::nn::Linear(256, outputs));
  return net;
}

Tensor outputs_of(const cdt::kernel::Model& model, const Tensor& x) {
  return model.forward(x).detach().reshape({-1}).to(torch::kFloat64);
}

void descend(const cdt::kernel::Model& model, const Tensor& x, const Tensor& seed, double rate) {
  const Tensor gradient =
      cdt::kernel::vector_jacobian_product(model, x, seed.reshape({-1}).to(model.dtype()));
  const torch::NoGradGuard no_grad;
  const auto pieces = cdt::kernel::unflatten(model, gradient);
  for (size_t i = 0; i < pieces.size(); ++i) model.parameters()[i].sub_(rate * pieces[i]);
}

/// Twenty steps on a copy of the parameters, with what assess_trial wants to know of them.
cdt::analysis::Trial run_trial(const cdt::kernel::Model& model,
                               const cdt::control::ModalController& controller, bool controlled,
                               double rate, const Tensor& x, const Tensor& y) {
  const double factor = cdt::loss::gradient_factor(kLoss, y.numel());
  const auto path = cdt::kernel::record_path(model, x, rate, [&](const Tensor& outputs) {
    const Tensor error = outputs - y;
    return factor * (controlled ? controller.steer(error) : error);
  });
  cdt::analysis::Trial trial;
  trial.controlled = controlled;
  trial.outputs = path.outputs;
  trial.local_outputs = path.local_outputs;
  trial.displacements = path.displacements;
  trial.target = y;
  trial.hessian_norm = path.curvature.norm;
  trial.kappa = controlled ? controller.closed_loop_radius()
                           : (1 - controller.steps()).abs().max().item<double>();
  return trial;
}

void regression() {
  torch::manual_seed(1);
  const Tensor all = torch::rand({96, 4}) - 0.5;
  const Tensor labels = ((3 * all.select(1, 0)).sin() * all.select(1, 1)).to(torch::kFloat64);
  const Tensor x = all.narrow(0, 0, 64), y = labels.narrow(0, 0, 64);
  const Tensor x_val = all.narrow(0, 64, 32), y_val = labels.narrow(0, 64, 32);
  const double rate = 0.03;  // a little more than half of what plain descent survives

  const cdt::kernel::Model model(network(1));
  const auto kernel = cdt::kernel::empirical_ntk(model, x);
  const auto cross = cdt::kernel::empirical_ntk(model, x_val, x);
  const auto spectrum =
      cdt::dynamics::decompose(kernel.theta, cdt::tol::rank_of_computed(64, kernel.network_dtype));
  cdt::analysis::PreflightOptions options;
  options.learning_rate = rate;
  options.labels = y;
  auto report = cdt::analysis::analyze(kernel, options);
  const Tensor outputs = kernel.outputs.reshape({-1}).to(torch::kFloat64);

  const auto controller = cdt::analysis::usual_controller(report);
  for (const bool controlled : {false, true}) {
    report.outlook.trials.push_back(
        cdt::analysis::assess_trial(run_trial(model, controller, controlled, rate, x, y)));
  }
  const auto problem = cdt::dynamics::modal_problem(
      spectrum, outputs - y, cross.theta, cross.outputs.reshape({-1}).to(torch::kFloat64) - y_val);
  report.outlook.forecast = cdt::analysis::summarize(cdt::control::forecast(problem, kLoss));
  std::puts(to_text(report).c_str());
}

void classification() {
  torch::manual_seed(3);
  const Tensor x = torch::rand({48, 4}) - 0.5;
  const Tensor y = torch::one_hot(x.narrow(1, 0, 3).argmax(1), 3).to(torch::kFloat64);
  const auto loss = cdt::loss::cross_entropy();
  double rate = 0;
  for (const bool controlled : {false, true}) {
    const cdt::kernel::Model model(network(3));
    std::unique_ptr<cdt::control::Controller> controller;
    std::printf("%-18s loss", controlled ? "controlled descent" : "gradient descent");
    for (int step = 0; step <= 20; ++step) {
      const Tensor logits = outputs_of(model, x).view({48, 3});
      if (!torch::isfinite(logits).all().item<bool>()) {
        std::printf(" infinite");
        break;
      }
      if (step % 2 == 0) {  // the kernel moves: linearize again
        const auto plant =
            cdt::control::Plant::of(cdt::kernel::empirical_ntk(model, x), loss, /*rate=*/1, y);
        if (rate == 0) rate = 24 * plant.unit_rate();
        if (controlled) controller = cdt::control::design(plant.at(rate));
      }
      if (step % 4 == 0) std::printf(" %8.3g", cdt::dynamics::output_loss(loss, logits, y));
      const Tensor label = controlled ? controller->augment(logits) : y;
      descend(model, x, cdt::dynamics::loss_gradient(loss, logits, label), rate);
    }
    std::printf("   (rate %.3g, every fourth step)\n", rate);
  }
}

}  // namespace

int main() {
  torch::set_num_threads(2);
  regression();
  std::puts("Cross entropy, twelve times the rate at which plain descent begins to oscillate:");
  classification();
}
