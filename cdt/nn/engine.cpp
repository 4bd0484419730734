#include <cdt/core/error.h>
#include <cdt/nn/descent_pass.h>
#include <cdt/nn/engine.h>

namespace cdt::nn {
namespace {

class DescentStep : public kernel::StepPass {
 public:
  DescentStep(const Mlp& model, const torch::Tensor& x) : pass_(model, x) {}

  torch::Tensor outputs() const override { return pass_.outputs(); }
  void descend(const torch::Tensor& seed, double rate, double shrink) override {
    pass_.descend(seed, rate, shrink);
  }
  std::vector<torch::Tensor> gradients(const torch::Tensor&) override {
    throw InvalidArgument("a descent pass has no gradients to hand out; ask for a pass for them");
  }

 private:
  DescentPass pass_;
};

class DescentEngine : public kernel::StepEngine {
 public:
  explicit DescentEngine(Mlp model) : model_(std::move(model)), graph_(kernel::Model(model_)) {}

  std::unique_ptr<kernel::StepPass> forward(const torch::Tensor& x, kernel::StepUse use) override {
    if (use == kernel::StepUse::kDescent && DescentPass::takes(model_, x)) {
      return std::make_unique<DescentStep>(model_, x);
    }
    return graph_.forward(x, use);
  }
  torch::Tensor evaluate(const torch::Tensor& x) override {
    return DescentPass::takes(model_, x) ? DescentPass::evaluate(model_, x) : graph_.evaluate(x);
  }

 private:
  Mlp model_;
  kernel::GraphEngine graph_;
};

}  // namespace

std::unique_ptr<kernel::StepEngine> make_engine(const Network& network) {
  CDT_REQUIRE(network, "expected a network to make an engine for, but came none");
  if (const auto mlp = network.as<MlpImpl>()) return std::make_unique<DescentEngine>(Mlp(mlp));
  return std::make_unique<kernel::GraphEngine>(kernel::Model(network));
}

}  // namespace cdt::nn
