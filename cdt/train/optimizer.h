/// LibTorch's own optimizers as baselines: one interface for steps, rates and checkpoints.
#pragma once

#include <cdt/kernel/model.h>
#include <cdt/train/options.h>
#include <torch/optim/optimizer.h>

#include <memory>

namespace cdt::train {

class Optimizer {
 public:
  /// Momentum (Nesterov, 0.9), Adam or L-BFGS (strong Wolfe) on the model's parameters.
  Optimizer(const kernel::Model& model, Method method, double weight_decay);

  /// One step at `rate`. `gradients` of the data loss at the present parameters, in their order
  /// (undefined: zero).
  void step(double rate, const std::vector<torch::Tensor>& gradients);
  /// One step of L-BFGS, which evaluates loss and gradient where it likes: `loss` [] with its
  /// graph.
  void step(double rate, const std::function<torch::Tensor()>& loss);

  /// Its memory as bytes [.], uint8, and the way back.
  torch::Tensor save() const;
  /// @throws InvalidArgument if these are not its bytes.
  void load(const torch::Tensor& bytes);

 private:
  void set_rate(double rate);

  std::vector<torch::Tensor> parameters_;
  double weight_decay_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace cdt::train
