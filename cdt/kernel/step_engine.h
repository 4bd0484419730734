/// Engines that compute gradient steps: LibTorch's graph for any model, faster ones for networks
/// that they know (nn::make_engine).
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

#include <memory>
#include <vector>

namespace cdt::kernel {

class Linearization;
using LinearizationPtr = std::shared_ptr<const Linearization>;

/// A forward pass on some samples, followed by exactly one step or gradient.
class StepPass {
 public:
  virtual ~StepPass() = default;

  /// ŷ as the model shapes them, without a graph; never written to afterwards.
  virtual torch::Tensor outputs() const = 0;
  /// θ ← keep·θ − Jᵀ seed, J the Jacobian of the outputs, seed shaped like them, of any floating
  /// dtype; keep [], float64, is 1 if undefined. Both lie on the model's device, and the host need
  /// not read them. Call it once, at the parameters of the forward pass.
  virtual void move(const torch::Tensor& seed, const torch::Tensor& keep) = 0;
  /// θ ← (1 − shrink) θ − Jᵀ(rate·seed): the rate multiplies the outputs' seed, where it is
  /// cheapest.
  void descend(const torch::Tensor& seed, double rate, double shrink);
  /// Jᵀ seed as tensors shaped like the model's parameters, in their order; undefined where a
  /// parameter does not influence the outputs. Call it once.
  virtual std::vector<torch::Tensor> gradients(const torch::Tensor& seed) = 0;
};

/// The rate as a step in `dtype` uses it: infinite if it overflows. Parameters then become
/// non-finite and the run is reported as diverged, whereas LibTorch would reject the number.
double rate_in(torch::ScalarType dtype, double rate);

/// What a pass is for. An engine that moves parameters itself may leave gradients to the graph.
enum class StepUse { kDescent, kGradients };

/// Forward passes of one model on any samples x [r, …], at its current parameters.
class StepEngine {
 public:
  virtual ~StepEngine() = default;

  /// A pass, valid until the parameters change or the next pass is made; `evaluate` in between is
  /// allowed.
  virtual std::unique_ptr<StepPass> forward(const torch::Tensor& x, StepUse use) = 0;
  /// The outputs only, without state for a step.
  virtual torch::Tensor evaluate(const torch::Tensor& x) = 0;
  /// Linearization of the outputs on x at the current parameters, if the engine computes J and its
  /// kernel in its own way; null: use linearize().
  virtual LinearizationPtr linearization(const torch::Tensor& x) {
    (void)x;
    return nullptr;
  }
  /// Checks a pass on one or two of the samples, for methods that require the outputs to be a
  /// function of parameters and inputs only.
  /// @throws InvalidArgument if a layer is random, mixes samples or updates its own state (training
  ///   mode). That state is restored.
  virtual void check(const torch::Tensor& x) { (void)x; }
  /// Whether passes on the same samples run the same operations on the device, whatever the values,
  /// and read none of them. Such steps can run without synchronization and be recorded.
  /// User-defined models may branch.
  virtual bool repeatable() const { return false; }
};

/// A pass that keeps only the outputs, for callers that rarely step. A step takes another forward
/// pass, so the parameters must still be those of this one.
std::unique_ptr<StepPass> look(std::shared_ptr<StepEngine> engine, const torch::Tensor& x);

/// K models of one shape as one, x [K, r, …] → [K, r, …]; each has its own samples and parameters
/// (nn::make_stack).
struct Stack {
  std::shared_ptr<StepEngine> engine;
  std::vector<torch::Tensor> parameters;  ///< [K, …], in the order of each model's parameters
};

/// Uses LibTorch's graph; works for any model.
class GraphEngine : public StepEngine {
 public:
  /// `repeatable`: the caller guarantees that the model always runs the same operations.
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

/// Residuals that do not belong to samples, such as a physics-informed loss, as the outputs of one
/// sample. Rows of their Jacobian come from backward passes for many vectors at once, within
/// `memory_bytes`.
class ResidualEngine : public GraphEngine {
 public:
  ResidualEngine(const Model& model, int64_t memory_bytes)
      : GraphEngine(model), model_(model), memory_bytes_(memory_bytes) {}

  /// No check here: the caller checks, since another pass would draw other points.
  void check(const torch::Tensor&) override {}
  /// Uses from_rows. Later calls throw InvalidArgument if the rows do not fit the memory.
  LinearizationPtr linearization(const torch::Tensor& x) override;

 private:
  Model model_;
  int64_t memory_bytes_;
};

}  // namespace cdt::kernel
