#include <cdt/core/error.h>
#include <cdt/train/base_rate.h>
#include <cdt/train/methods/optimizers.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <cstring>
#include <sstream>

namespace cdt::train {
namespace {

namespace optim = torch::optim;
using torch::Tensor;

constexpr double kRateComesLater = 1;

/// An optimizer's memory as bytes [.], uint8.
Tensor bytes_of(optim::Optimizer& optimizer, const Tensor& parameter) {
  for (const auto& [key, state] : optimizer.state()) {
    // L-BFGS keeps scratch space for its two loops, in part undefined, which cannot be written.
    if (auto* lbfgs = dynamic_cast<optim::LBFGSParamState*>(state.get()); lbfgs && lbfgs->al()) {
      for (Tensor& scratch : *lbfgs->al()) {
        if (!scratch.defined()) scratch = torch::zeros({}, parameter.options());
      }
    }
  }
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  const std::string bytes = stream.str();
  Tensor saved = torch::empty({static_cast<int64_t>(bytes.size())}, torch::kUInt8);
  std::memcpy(saved.data_ptr(), bytes.data(), bytes.size());
  return saved;
}

void load_bytes(optim::Optimizer& optimizer, const Tensor& bytes, torch::Device device) {
  const Tensor saved = bytes.contiguous();
  std::istringstream stream(
      std::string(static_cast<const char*>(saved.data_ptr()), static_cast<size_t>(saved.numel())));
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(stream, device);
    optimizer.load(archive);
  } catch (const c10::Error& error) {
    throw InvalidArgument(
        c10::str("the optimizer's memory cannot be read: ", error.what_without_backtrace()));
  }
}

class Optimizer : public StepMethod {
 public:
  Optimizer(std::shared_ptr<const Setup> setup, std::unique_ptr<optim::Optimizer> optimizer)
      : setup_(std::move(setup)),
        parameters_(setup_->model.parameters()),
        optimizer_(std::move(optimizer)) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override {
    row.learning_rate = rate_.at(*setup_, pass) * setup_->factor(step);
    for (auto& group : optimizer_->param_groups()) group.options().set_lr(row.learning_rate);
    take_step(pass);
    for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
    return {};
  }
  void adopt(const dynamics::Modes& modes) override { rate_.adopt(modes); }
  double learning_rate() const override { return rate_.value(); }
  void save(SavedState& state) const override {
    rate_.save(state);
    state.tensors["optimizer"] = bytes_of(*optimizer_, parameters_.front());
  }
  void restore(const SavedState& state) override {
    load_bytes(*optimizer_, state.tensor("optimizer"), parameters_.front().device());
    rate_.restore(state);
  }

 protected:
  virtual void take_step(Pass& pass) {
    const auto gradients = pass.gradients(setup_->objective.gradient(pass.values, pass.labels));
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients[i];
    optimizer_->step();
  }

  std::shared_ptr<const Setup> setup_;
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;

 private:
  BaseRate rate_;
};

/// Evaluates loss and gradient where it likes.
class Lbfgs : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  void take_step(Pass& pass) override {
    const double decay = setup_->options.weight_decay;
    optimizer_->step([&] {
      const torch::AutoGradMode with_graph(true);
      optimizer_->zero_grad();
      Tensor objective = setup_->objective.graph(setup_->model.forward(pass.x), pass.labels);
      for (const Tensor& parameter : parameters_) {
        if (decay > 0) objective = objective + decay / 2 * parameter.square().sum();
      }
      objective.backward();
      return objective;
    });
  }
};

}  // namespace

std::unique_ptr<StepMethod> make_momentum(std::shared_ptr<const Setup> setup) {
  auto optimizer = std::make_unique<optim::SGD>(setup->model.parameters(),
                                                optim::SGDOptions(kRateComesLater)
                                                    .momentum(0.9)
                                                    .nesterov(true)
                                                    .weight_decay(setup->options.weight_decay));
  return std::make_unique<Optimizer>(std::move(setup), std::move(optimizer));
}

std::unique_ptr<StepMethod> make_adam(std::shared_ptr<const Setup> setup) {
  auto optimizer = std::make_unique<optim::Adam>(
      setup->model.parameters(),
      optim::AdamOptions(kRateComesLater).weight_decay(setup->options.weight_decay));
  return std::make_unique<Optimizer>(std::move(setup), std::move(optimizer));
}

std::unique_ptr<StepMethod> make_lbfgs(std::shared_ptr<const Setup> setup) {
  auto optimizer = std::make_unique<optim::LBFGS>(
      setup->model.parameters(),
      optim::LBFGSOptions(kRateComesLater).line_search_fn("strong_wolfe"));
  return std::make_unique<Lbfgs>(std::move(setup), std::move(optimizer));
}

}  // namespace cdt::train
