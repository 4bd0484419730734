/// How gradient steps are computed: LibTorch's graph is one engine; others are faster for networks
/// that they know (nn::make_engine).
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

#include <memory>
#include <vector>

namespace cdt::kernel {

class Linearization;
using LinearizationPtr = std::shared_ptr<const Linearization>;

/// A forward pass on some samples, and the one thing that follows it: a descent, or gradients.
class StepPass {
 public:
  virtual ~StepPass() = default;

  /// ŷ as the model shapes them, without a graph; they are not written to later.
  virtual torch::Tensor outputs() const = 0;
  /// θ ← keep·θ − Jᵀ seed, J the Jacobian of the outputs, seed shaped like them, of any floating
  /// dtype; keep [], float64, undefined: 1. Both lie on the model's device, and need not be read
  /// there. At the parameters of the forward pass, once.
  virtual void move(const torch::Tensor& seed, const torch::Tensor& keep) = 0;
  /// θ ← (1 − shrink) θ − Jᵀ(rate·seed): the rate goes along the outputs, where it costs least.
  void descend(const torch::Tensor& seed, double rate, double shrink);
  /// Jᵀ seed as tensors shaped like the model's parameters, in their order; undefined where a
  /// parameter does not move the outputs. Likewise, once.
  virtual std::vector<torch::Tensor> gradients(const torch::Tensor& seed) = 0;
};

/// A rate as a step in `dtype` takes it: infinite where it does not fit. Then parameters are no
/// longer finite and the run has diverged, as it should, while LibTorch refuses the number.
double rate_in(torch::ScalarType dtype, double rate);

/// What a pass is for: an engine that moves parameters itself need not be able to hand out their
/// gradients, and may leave such passes to the graph.
enum class StepUse { kDescent, kGradients };

/// Forward passes of one model on any samples x [r, …], at its present parameters.
class StepEngine {
 public:
  virtual ~StepEngine() = default;

  /// A pass that is good until the parameters change or the next one is made; `evaluate` in between
  /// does it no harm.
  virtual std::unique_ptr<StepPass> forward(const torch::Tensor& x, StepUse use) = 0;
  /// The outputs alone: nothing is kept for a step.
  virtual torch::Tensor evaluate(const torch::Tensor& x) = 0;
  /// Linearization on x at the present parameters, where the engine has its own way to J and
  /// its kernel; null: linearize() finds them.
  virtual LinearizationPtr linearization(const torch::Tensor& x) {
    (void)x;
    return nullptr;
  }
  /// Looks at a pass on one or two of the samples, for methods that take the model for a function
  /// of its parameters and inputs.
  /// @throws InvalidArgument if a layer is random, mixes samples or moves a state of its own
  ///   (training mode); that state is as before then.
  virtual void check(const torch::Tensor& x) { (void)x; }
  /// Whether passes on the same samples are the same operations on the device, whatever the
  /// numbers, and read none of them: such steps can be taken without looking, and recorded. A model
  /// of the user's may branch.
  virtual bool repeatable() const { return false; }
};

/// A pass of an engine that keeps the outputs alone: one that most often only looks. A caller that
/// steps after all takes another forward pass, at the parameters of this one.
std::unique_ptr<StepPass> look(std::shared_ptr<StepEngine> engine, const torch::Tensor& x);

/// K models of one shape as one, x [K, r, …] → [K, r, …], each with samples and parameters of its
/// own (nn::make_stack).
struct Stack {
  std::shared_ptr<StepEngine> engine;
  std::vector<torch::Tensor> parameters;  ///< [K, …], in the order of each model's
};

/// By LibTorch's graph: any model.
class GraphEngine : public StepEngine {
 public:
  /// `repeatable`: the caller knows that the model's operations are always the same.
  explicit GraphEngine(Model model, bool repeatable = false)
      : model_(std::move(model)), repeatable_(repeatable) {}

  std::unique_ptr<StepPass> forward(const torch::Tensor& x, StepUse use) override;
  torch::Tensor evaluate(const torch::Tensor& x) override;
  void check(const torch::Tensor& x) override;
  bool repeatable() const override { return repeatable_; }

 private:
  Model model_;
  bool repeatable_;
};

/// Of residuals that belong to no samples, as the outputs of one: a physics-informed loss. Rows of
/// their Jacobian come from backward passes for many vectors at once, within this memory.
class ResidualEngine : public GraphEngine {
 public:
  ResidualEngine(const Model& model, int64_t memory_bytes)
      : GraphEngine(model), model_(model), memory_bytes_(memory_bytes) {}

  /// The caller looks at it: one pass more would draw other points.
  void check(const torch::Tensor&) override {}
  /// By from_rows. @throws InvalidArgument, later, if the rows do not fit the memory.
  LinearizationPtr linearization(const torch::Tensor& x) override;

 private:
  Model model_;
  int64_t memory_bytes_;
};

}  // namespace cdt::kernel
