// Controlled Descent Training in an existing training loop: one line changes, the label.
#include <cdt/control/controller.h>
#include <cdt/kernel/ntk.h>
#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(1);
  torch::set_num_threads(2);
  const auto x = torch::rand({64, 4}) - 0.5;
  const auto y = (3 * x.select(1, 0)).sin().mul(x.select(1, 1)).unsqueeze(1);
  const double learning_rate = 3.0;  // far beyond what plain gradient descent survives
  const int steps = 300;

  for (const bool controlled : {false, true}) {
    torch::manual_seed(2);
    torch::nn::Sequential net(torch::nn::Linear(4, 256), torch::nn::Tanh(),
                              torch::nn::Linear(256, 1));
    torch::optim::SGD optimizer(net->parameters(), learning_rate);

    // Once, before training: the kernel and the controller.
    const auto kernel = cdt::kernel::empirical_ntk(net, x);
    const auto plant = cdt::control::Plant::of(kernel, cdt::loss::mse(), learning_rate);
    const auto controller = cdt::control::design(plant);

    double loss = 0;
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      const auto y_hat = net->forward(x);
      const auto label = controlled ? controller->augment(y_hat, y) : y;  // the one line
      torch::mse_loss(y_hat, label).backward();
      optimizer.step();
      loss = torch::mse_loss(y_hat, y).item<double>();  // against the true labels
    }
    std::printf("%-18s MSE after %d steps at learning rate %g: %.3e\n",
                controlled ? "controlled descent" : "gradient descent", steps, learning_rate, loss);
  }
}
