#include <cdt/core/error.h>
#include <cdt/kernel/check/pending_checks.h>
#include <cdt/kernel/factor/backward.h>
#include <cdt/kernel/factor/batched_rows.h>
#include <cdt/kernel/linearization.h>
#include <cdt/kernel/product/blocks.h>
#include <cdt/kernel/record/autograd_scope.h>
#include <cdt/kernel/record/recorder.h>
#include <cdt/kernel/step_engine.h>

#include <cmath>
#include <limits>

namespace cdt::kernel {
namespace {

using torch::Tensor;

class GraphPass : public StepPass {
 public:
  GraphPass(const Model& model, const Tensor& x) : model_(model) {
    const torch::AutoGradMode with_graph(true);
    outputs_ = model_.forward(x);
  }

  Tensor outputs() const override { return outputs_.detach(); }

  std::vector<Tensor> gradients(const Tensor& seed) override {
    CDT_REQUIRE(!used_, "a pass is good for one step; take another forward pass");
    CDT_REQUIRE(seed.sizes() == outputs_.sizes(), "the seed must have the outputs' shape ",
                outputs_.sizes(), ", got ", seed.sizes());
    used_ = true;
    require_trainable(model_);
    auto found = torch::autograd::grad({outputs_}, model_.parameters(),
                                       {seed.to(outputs_.scalar_type())}, /*retain_graph=*/false,
                                       /*create_graph=*/false, /*allow_unused=*/true);
    for (Tensor& gradient : found) {  // user-defined embeddings may have sparse gradients
      if (gradient.defined() && gradient.is_sparse()) gradient = gradient.to_dense();
    }
    return found;
  }

  void move(const Tensor& seed, const Tensor& keep) override {
    const auto found = gradients(seed);
    const torch::NoGradGuard no_graph;
    const auto& parameters = model_.parameters();
    std::vector<Tensor> moved, moves;
    for (size_t i = 0; i < parameters.size(); ++i) {
      Tensor parameter = parameters[i];
      if (keep.defined()) parameter.mul_(keep);
      if (!found[i].defined()) continue;
      moved.push_back(parameter);
      moves.push_back(found[i]);
    }
    if (moved.empty()) return;
    if (!model_.device().is_cpu()) {  // all at once
      torch::_foreach_sub_(moved, moves);
      for (const Tensor& parameter : moved) parameter.unsafeGetTensorImpl()->bump_version();
      return;
    }
    for (size_t i = 0; i < moved.size(); ++i) moved[i].sub_(moves[i]);
  }

 private:
  Model model_;
  Tensor outputs_;  ///< with their graph
  bool used_ = false;
};

class Look : public StepPass {
 public:
  Look(std::shared_ptr<StepEngine> engine, const Tensor& x)
      : engine_(std::move(engine)), x_(x), outputs_(engine_->evaluate(x)) {}

  Tensor outputs() const override { return outputs_; }
  void move(const Tensor& seed, const Tensor& keep) override {
    engine_->forward(x_, StepUse::kDescent)->move(seed, keep);
  }
  std::vector<Tensor> gradients(const Tensor& seed) override {
    return engine_->forward(x_, StepUse::kGradients)->gradients(seed);
  }

 private:
  std::shared_ptr<StepEngine> engine_;
  Tensor x_, outputs_;
};

}  // namespace

void StepPass::descend(const Tensor& seed, double rate, double shrink) {
  const auto number = torch::TensorOptions().dtype(torch::kFloat64).device(seed.device());
  move(rate == 1 ? seed : seed.to(torch::kFloat64) * rate,
       shrink == 0 ? Tensor() : torch::full({}, 1 - shrink, number));
}

double rate_in(torch::ScalarType dtype, double rate) {
  // Optimizers multiply the rate, Adam's first step by 10.
  constexpr double kRoom = 16;
  const double largest = dtype == torch::kFloat64 ? std::numeric_limits<double>::max()
                                                  : std::numeric_limits<float>::max();
  return std::abs(rate) > largest / kRoom ? std::copysign(INFINITY, rate) : rate;
}

std::unique_ptr<StepPass> look(std::shared_ptr<StepEngine> engine, const Tensor& x) {
  return std::make_unique<Look>(std::move(engine), x);
}

std::unique_ptr<StepPass> GraphEngine::forward(const Tensor& x, StepUse) {
  return std::make_unique<GraphPass>(model_, x);
}

void GraphEngine::check(const Tensor& x) {
  PendingChecks dropped;  // non-finite outputs are reported by the run
  on_few_samples(x, [&](const Tensor& few) {
    watch(model_, [&] { kernel::evaluate(model_, few, dropped); });
  });
}

Tensor GraphEngine::evaluate(const Tensor& x) {
  const torch::NoGradGuard no_graph;
  return in_blocks(x, [this](const Tensor& some) { return model_.forward(some); });
}

LinearizationPtr ResidualEngine::linearization(const Tensor& x) {
  const KernelScope scope;
  const Tensor residuals = model_.forward(x);
  return from_rows(  // a function may return a wider dtype than its parameters have
      residuals.detach().to(model_.dtype()).reshape({x.size(0), -1}),
      [residuals, parameters = model_.parameters(), bytes = memory_bytes_] {
        return batched_rows(residuals, parameters, bytes);
      },
      [residuals, model = model_](const Tensor& v) {
        const Tensor seed = v.view(residuals.sizes()).to(residuals.scalar_type());
        return flatten(model, gradients_at(model.parameters(), residuals, seed, Graph::kKept));
      });
}

}  // namespace cdt::kernel
