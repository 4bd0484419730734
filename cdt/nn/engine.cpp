#include <cdt/core/error.h>
#include <cdt/kernel/product/blocks.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/passes/descent_pass.h>
#include <cdt/nn/passes/operator_pass.h>
#include <cdt/nn/passes/picture_pass.h>

namespace cdt::nn {
namespace {

/// A pass that moves parameters itself: DescentPass, OperatorPass or PicturePass.
template <class Pass>
class MovingStep : public kernel::StepPass {
 public:
  template <class Holder>
  MovingStep(const Holder& model, const torch::Tensor& x) : pass_(model, x) {}

  torch::Tensor outputs() const override { return pass_.outputs(); }
  void move(const torch::Tensor& seed, const torch::Tensor& keep) override {
    pass_.move(seed, keep);
  }
  std::vector<torch::Tensor> gradients(const torch::Tensor&) override {
    throw InvalidArgument("a descent pass has no gradients to hand out; ask for a pass for them");
  }

 private:
  Pass pass_;
};

class MlpEngine : public kernel::StepEngine {
 public:
  explicit MlpEngine(Mlp model) : model_(std::move(model)), graph_(kernel::Model(model_)) {}

  std::unique_ptr<kernel::StepPass> forward(const torch::Tensor& x, kernel::StepUse use) override {
    if (use == kernel::StepUse::kDescent) {
      if (DescentPass::takes(model_, x))
        return std::make_unique<MovingStep<DescentPass>>(model_, x);
      if (goes_by_operators(x)) return std::make_unique<MovingStep<OperatorPass>>(model_, x);
    }
    return graph_.forward(x, use);
  }
  torch::Tensor evaluate(const torch::Tensor& x) override {
    return kernel::in_blocks(x, [this](const torch::Tensor& some) {
      if (DescentPass::takes(model_, some)) return DescentPass::evaluate(model_, some);
      return goes_by_operators(some) ? OperatorPass::evaluate(model_, some) : graph_.evaluate(some);
    });
  }
  bool repeatable() const override { return true; }

 private:
  bool goes_by_operators(const torch::Tensor& x) const {
    return !x.device().is_cpu() && OperatorPass::takes(model_, x);
  }

  Mlp model_;
  kernel::GraphEngine graph_;
};

/// For GPUs; on a CPU LibTorch's convolutions are faster than products with patches.
class ConvNetEngine : public kernel::StepEngine {
 public:
  explicit ConvNetEngine(ConvNet model) : model_(std::move(model)), graph_(kernel::Model(model_)) {}

  std::unique_ptr<kernel::StepPass> forward(const torch::Tensor& x, kernel::StepUse use) override {
    if (use == kernel::StepUse::kDescent && goes_by_products(x)) {
      return std::make_unique<MovingStep<PicturePass>>(model_, x);
    }
    return graph_.forward(x, use);
  }
  torch::Tensor evaluate(const torch::Tensor& x) override {
    return goes_by_products(x) ? PicturePass::evaluate(model_, x) : graph_.evaluate(x);
  }
  bool repeatable() const override { return true; }

 private:
  bool goes_by_products(const torch::Tensor& x) const {
    return !x.device().is_cpu() && PicturePass::takes(model_, x);
  }

  ConvNet model_;
  kernel::GraphEngine graph_;
};

}  // namespace

std::unique_ptr<kernel::StepEngine> make_engine(const Network& network) {
  CDT_REQUIRE(network, "expected a network to make an engine for, got none");
  if (const auto mlp = network.as<MlpImpl>()) return std::make_unique<MlpEngine>(Mlp(mlp));
  if (const auto net = network.as<ConvNetImpl>()) {
    return std::make_unique<ConvNetEngine>(ConvNet(net));
  }
  return std::make_unique<kernel::GraphEngine>(kernel::Model(network), /*repeatable=*/true);
}

}  // namespace cdt::nn
