#include <cdt/core/error.h>
#include <cdt/train/optimizer.h>
#include <torch/optim.h>

#include <cstring>
#include <sstream>

namespace cdt::train {

using torch::Tensor;
namespace optim = torch::optim;

Optimizer::Optimizer(const kernel::Model& model, Method method, double weight_decay)
    : parameters_(model.parameters()), weight_decay_(weight_decay) {
  constexpr double kRateComesLater = 1;
  switch (method) {
    case Method::kMomentum:
      optimizer_ = std::make_unique<optim::SGD>(parameters_, optim::SGDOptions(kRateComesLater)
                                                                 .momentum(0.9)
                                                                 .nesterov(true)
                                                                 .weight_decay(weight_decay));
      return;
    case Method::kAdam:
      optimizer_ = std::make_unique<optim::Adam>(
          parameters_, optim::AdamOptions(kRateComesLater).weight_decay(weight_decay));
      return;
    case Method::kLbfgs:
      optimizer_ = std::make_unique<optim::LBFGS>(
          parameters_, optim::LBFGSOptions(kRateComesLater).line_search_fn("strong_wolfe"));
      return;
    default:
      throw InvalidArgument(c10::str(to_string(method), " is none of LibTorch's optimizers"));
  }
}

void Optimizer::set_rate(double rate) {
  for (auto& group : optimizer_->param_groups()) group.options().set_lr(rate);
}

void Optimizer::step(double rate, const std::vector<Tensor>& gradients) {
  set_rate(rate);
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients[i];
  optimizer_->step();
  for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
}

void Optimizer::step(double rate, const std::function<Tensor()>& loss) {
  set_rate(rate);
  optimizer_->step([&] {
    const torch::AutoGradMode with_graph(true);
    optimizer_->zero_grad();
    Tensor objective = loss();
    for (const Tensor& parameter : parameters_) {
      if (weight_decay_ > 0) objective = objective + weight_decay_ / 2 * parameter.square().sum();
    }
    objective.backward();
    return objective;
  });
  for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
}

Tensor Optimizer::save() const {
  for (const auto& [key, state] : optimizer_->state()) {
    // L-BFGS keeps scratch space for its two loops, in part undefined, which cannot be written.
    if (auto* lbfgs = dynamic_cast<optim::LBFGSParamState*>(state.get()); lbfgs && lbfgs->al()) {
      for (Tensor& scratch : *lbfgs->al()) {
        if (!scratch.defined()) scratch = torch::zeros({}, parameters_.front().options());
      }
    }
  }
  torch::serialize::OutputArchive archive;
  optimizer_->save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  const std::string bytes = stream.str();
  Tensor saved = torch::empty({static_cast<int64_t>(bytes.size())}, torch::kUInt8);
  std::memcpy(saved.data_ptr(), bytes.data(), bytes.size());
  return saved;
}

void Optimizer::load(const Tensor& bytes) {
  const Tensor saved = bytes.contiguous();
  std::istringstream stream(
      std::string(static_cast<const char*>(saved.data_ptr()), static_cast<size_t>(saved.numel())));
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(stream, parameters_.front().device());
    optimizer_->load(archive);
  } catch (const c10::Error& error) {
    throw InvalidArgument(
        c10::str("the optimizer's memory cannot be read: ", error.what_without_backtrace()));
  }
}

}  // namespace cdt::train
