/// LibTorch's own optimizers as baselines.
#include <cdt/core/error.h>
#include <cdt/train/loop/base_rate.h>
#include <cdt/train/method.h>
#include <torch/optim.h>

#include <deque>
#include <type_traits>

namespace cdt::train {
namespace {

namespace optim = torch::optim;
using torch::Tensor;

constexpr double kRateComesLater = 1;
constexpr const char* kCompared = "to compare with";

using Memories = std::remove_cvref_t<decltype(std::declval<optim::Optimizer&>().state())>;

/// Key of LibTorch's state of a parameter: its address, in LibTorch 1.13 as text.
template <class Key = Memories::key_type>
Key key_of(const Tensor& parameter) {
  void* address = parameter.unsafeGetTensorImpl();
  if constexpr (std::is_same_v<Key, std::string>) {
    return c10::str(address);
  } else {
    return address;
  }
}

/// Checkpoints store the optimizer's state as named numbers and tensors, with one entry for each
/// parameter that has a state. LibTorch's own format is a program for its loader, which would
/// execute whatever a file contains.
class Optimizer : public StepMethod {
 public:
  Optimizer(std::shared_ptr<const Setup> setup, std::unique_ptr<optim::Optimizer> optimizer)
      : setup_(std::move(setup)),
        parameters_(setup_->model.parameters()),
        optimizer_(std::move(optimizer)) {}

  Advance advance(int64_t step, Pass& pass, StepRecord& row) override {
    row.learning_rate = rate_.at(*setup_, pass) * setup_->factor(step);
    const double rate = kernel::rate_in(setup_->model.dtype(), row.learning_rate);
    for (auto& group : optimizer_->param_groups()) group.options().set_lr(rate);
    take_step(pass);
    for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
    return {};
  }
  void adopt(const dynamics::Modes& modes) override { rate_.adopt(modes); }
  double learning_rate() const override { return rate_.value(); }
  void save(SavedState& state) const override {
    rate_.save(state);
    auto& list = state.lists["optimizer"];
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto found = optimizer_->state().find(key_of(parameters_[i]));
      if (found == optimizer_->state().end()) continue;
      SavedState saved;
      write(*found->second, saved);
      state.take_tensors(c10::str("optimizer.", i), saved);
      saved.values["parameter"] = static_cast<int64_t>(i);
      list.push_back(std::move(saved));
    }
  }
  void restore(const SavedState& state) override {
    CDT_REQUIRE(!state.tensors.contains("optimizer"),
                "the checkpoint comes from an earlier version, which kept the memory of ",
                to_string(setup_->options.method),
                " as a program that LibTorch would execute; it is not read, so train anew");
    for (SavedState saved : state.list("optimizer")) {
      const int64_t i = saved.count("parameter");
      CDT_REQUIRE(i < static_cast<int64_t>(parameters_.size()), "the checkpoint has a memory of ",
                  "parameter ", i, "; the model has ", parameters_.size());
      saved.tensors = state.tensors_of(c10::str("optimizer.", i));
      const Tensor& parameter = parameters_[static_cast<size_t>(i)];
      optimizer_->state()[key_of(parameter)] = read(saved, parameter.detach());
    }
    rate_.restore(state);
  }

 protected:
  using Memory = optim::OptimizerParamState;

  virtual void write(const Memory& memory, SavedState& saved) const = 0;
  virtual std::unique_ptr<Memory> read(const SavedState& saved, const Tensor& parameter) const = 0;
  virtual void take_step(Pass& pass) {
    const auto gradients = pass.gradients(setup_->loss->gradient(pass.values, pass.labels));
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients[i];
    optimizer_->step();
  }

  std::shared_ptr<const Setup> setup_;
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;

 private:
  BaseRate rate_;
};

class Momentum : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  void write(const Memory& memory, SavedState& saved) const override {
    const auto& momentum = static_cast<const optim::SGDParamState&>(memory);
    saved.tensors["momentum"] = momentum.momentum_buffer().detach().clone();
  }
  std::unique_ptr<Memory> read(const SavedState& saved, const Tensor& parameter) const override {
    auto memory = std::make_unique<optim::SGDParamState>();
    memory->momentum_buffer(saved.tensor_like("momentum", parameter).clone());
    return memory;
  }
};

class Adam : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  void write(const Memory& memory, SavedState& saved) const override {
    const auto& adam = static_cast<const optim::AdamParamState&>(memory);
    saved.values["steps"] = adam.step();
    saved.tensors["mean"] = adam.exp_avg().detach().clone();
    saved.tensors["square"] = adam.exp_avg_sq().detach().clone();
  }
  std::unique_ptr<Memory> read(const SavedState& saved, const Tensor& parameter) const override {
    auto memory = std::make_unique<optim::AdamParamState>();
    memory->step(saved.count("steps"));
    memory->exp_avg(saved.tensor_like("mean", parameter).clone());
    memory->exp_avg_sq(saved.tensor_like("square", parameter).clone());
    return memory;
  }
};

/// Evaluates loss and gradient several times per step, at points of its choice.
class Lbfgs : public Optimizer {
 public:
  using Optimizer::Optimizer;

 protected:
  /// LibTorch keeps one state for all parameters, at the first of them.
  void write(const Memory& memory, SavedState& saved) const override {
    const auto& lbfgs = static_cast<const optim::LBFGSParamState&>(memory);
    saved.values["evaluations"] = lbfgs.func_evals();
    saved.values["iterations"] = lbfgs.n_iter();
    const auto put = [&](const std::string& name, const std::deque<Tensor>& tensors) {
      saved.put(name, {tensors.begin(), tensors.end()});
    };
    put("steps", lbfgs.old_stps());
    put("differences", lbfgs.old_dirs());
    put("weights", lbfgs.ro());
    saved.values["pairs"] = static_cast<int64_t>(lbfgs.ro().size());
    const bool moved = lbfgs.d().defined();  // otherwise the remaining values are unset
    saved.values["moved"] = moved;
    if (!moved) return;
    saved.values["length"] = lbfgs.t();
    saved.values["objective"] = lbfgs.prev_loss();
    saved.tensors["direction"] = lbfgs.d().detach().clone();
    saved.tensors["gradient"] = lbfgs.prev_flat_grad().detach().clone();
    saved.values["scale"] = lbfgs.H_diag().item<double>();  // an integer at first
  }
  std::unique_ptr<Memory> read(const SavedState& saved, const Tensor& parameter) const override {
    int64_t count = 0;
    for (const Tensor& each : parameters_) count += each.numel();
    const Tensor scalar = torch::empty({}, parameter.options());
    const Tensor flat = torch::empty({count}, parameter.options());
    auto memory = std::make_unique<optim::LBFGSParamState>();
    memory->func_evals(saved.count("evaluations"));
    memory->n_iter(saved.count("iterations"));
    const auto history =
        static_cast<const optim::LBFGSOptions&>(optimizer_->param_groups().front().options())
            .history_size();
    const int64_t pairs = saved.count("pairs");
    CDT_REQUIRE(pairs <= history, "the checkpoint's memory must have at most ", history,
                " steps, got ", pairs);
    const auto get = [&](const std::string& name, const Tensor& like) {
      const auto found =
          saved.tensors_like(name, std::vector<Tensor>(static_cast<size_t>(pairs), like));
      return std::deque<Tensor>(found.begin(), found.end());
    };
    memory->old_stps(get("steps", flat));
    memory->old_dirs(get("differences", flat));
    memory->ro(get("weights", scalar));
    if (!saved.flag("moved")) return memory;
    memory->t(saved.number("length"));
    memory->prev_loss(saved.number("objective"));
    memory->d(saved.tensor_like("direction", flat).clone());
    memory->prev_flat_grad(saved.tensor_like("gradient", flat).clone());
    memory->H_diag(torch::full({}, saved.number("scale"), parameter.options()));
    return memory;
  }
  void take_step(Pass& pass) override {
    const double decay = setup_->options.weight_decay;
    optimizer_->step([&] {
      const torch::AutoGradMode with_graph(true);
      optimizer_->zero_grad();
      const Tensor outputs = setup_->model.forward(pass.x).reshape(pass.labels.sizes());
      Tensor objective = setup_->loss->graph(outputs, pass.labels);
      for (const Tensor& parameter : parameters_) {
        if (decay > 0) objective = objective + decay / 2 * parameter.square().sum();
      }
      objective.backward();
      return objective;
    });
  }
};

/// Nesterov momentum 0.9.
std::unique_ptr<StepMethod> make_momentum(std::shared_ptr<const Setup> setup) {
  auto optimizer = std::make_unique<optim::SGD>(setup->model.parameters(),
                                                optim::SGDOptions(kRateComesLater)
                                                    .momentum(0.9)
                                                    .nesterov(true)
                                                    .weight_decay(setup->options.weight_decay));
  return std::make_unique<Momentum>(std::move(setup), std::move(optimizer));
}

std::unique_ptr<StepMethod> make_adam(std::shared_ptr<const Setup> setup) {
  auto optimizer = std::make_unique<optim::Adam>(
      setup->model.parameters(),
      optim::AdamOptions(kRateComesLater).weight_decay(setup->options.weight_decay));
  return std::make_unique<Adam>(std::move(setup), std::move(optimizer));
}

/// With a strong Wolfe line search; 20 iterations a step.
std::unique_ptr<StepMethod> make_lbfgs(std::shared_ptr<const Setup> setup) {
  auto optimizer = std::make_unique<optim::LBFGS>(
      setup->model.parameters(),
      optim::LBFGSOptions(kRateComesLater).line_search_fn("strong_wolfe"));
  return std::make_unique<Lbfgs>(std::move(setup), std::move(optimizer));
}

}  // namespace

MethodTraits momentum_method() {
  return {.name = "momentum",
          .summary = kCompared,
          .gradients = true,
          .start_rate = 0.05,
          .make = make_momentum};
}

MethodTraits adam_method() {
  return {.name = "adam",
          .summary = kCompared,
          .gradients = true,
          .start_rate = 1e-3,
          .by_curvature = false,
          .make = make_adam};
}

MethodTraits lbfgs_method() {
  return {.name = "lbfgs",
          .summary = kCompared,
          .gradients = true,
          .start_rate = 1,
          .by_curvature = false,
          .make = make_lbfgs};
}

}  // namespace cdt::train
