/// The constants of a run: model, data, options, and the engine that computes steps.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/step_engine.h>
#include <cdt/loss/loss.h>
#include <cdt/train/batches.h>
#include <cdt/train/data.h>
#include <cdt/train/history.h>

namespace cdt::train {

/// A forward pass on the samples of one step.
struct Pass {
  int64_t batch = 0;
  torch::Tensor x;
  std::unique_ptr<kernel::StepPass> step;
  torch::Tensor values;   ///< ŷ [b, n_L], float64
  torch::Tensor labels;   ///< y [b, n_L], float64
  torch::Tensor weights;  ///< weights of the errors [b·n_L]; undefined: all 1
  loss::Assessment found;
  double objective = 0;  ///< on these samples, with weights, smoothing and weight decay

  /// θ ← (1 − shrink) θ − rate·Jᵀ seed, for seed [b·n_L] in any shape. Call it at most once.
  void descend(const torch::Tensor& seed, double rate, double shrink = 0) {
    step->descend(seed.reshape(step->outputs().sizes()), rate, shrink);
  }
  /// Jᵀ seed for each parameter. Call it at most once, and only if the method uses gradients.
  std::vector<torch::Tensor> gradients(const torch::Tensor& seed) {
    return step->gradients(seed.reshape(step->outputs().sizes()));
  }
};

/// Loss and objective of the samples of a pass.
struct Measured {
  loss::Assessment found;
  double objective = kUnknown;  ///< with weights, smoothing and weight decay
};

/// Loss and objective of all training samples.
struct Whole {
  double loss = kUnknown;
  double objective = kUnknown;  ///< what training minimizes: with weights, smoothing, decay
};

struct Setup {
  /// Checks all arguments. Without an engine, steps use LibTorch's autograd graph.
  /// @throws InvalidArgument if options contradict each other or data do not fit.
  Setup(kernel::Model model, TrainData data, const TrainOptions& options,
        std::shared_ptr<kernel::StepEngine> engine);

  /// The pass of step k, at the current parameters.
  /// @throws InvalidArgument if the model's outputs are not shaped like the labels.
  Pass forward(int64_t step) const;
  /// The pass of the given samples, [b] of int64; undefined: all.
  Pass forward(const torch::Tensor& rows) const;
  double loss_of(const torch::Tensor& x, const torch::Tensor& y) const;
  Whole whole() const;
  /// All numbers to read from outputs at the current parameters, [k] float64 on the device.
  /// `measured` interprets them, given the labels.
  torch::Tensor numbers(const torch::Tensor& outputs, const torch::Tensor& labels,
                        const torch::Tensor& weights) const;
  Measured measured(std::span<const double> numbers, const torch::Tensor& labels) const;
  /// The same for the samples of all ranks.
  /// @throws NumericalError if the ranks have different parameters.
  Measured measured_together(const torch::Tensor& outputs, const torch::Tensor& labels,
                             const torch::Tensor& weights) const;
  /// Inputs and labels of the samples of step k.
  torch::Tensor inputs(int64_t step) const;
  torch::Tensor labels(int64_t step) const;
  /// Weights of the errors of these samples [b·n_L]; undefined if all are equal.
  torch::Tensor weights(int64_t step) const;
  /// Whether to evaluate the validation loss before step k, or at the end.
  bool validates(int64_t step) const {
    return data.x_val.defined() && (step >= options.steps || step % options.validate_every == 0);
  }
  /// The schedule's α_k/α.
  double factor(int64_t step) const { return options.schedule.factor(step, options.steps); }

  kernel::Model model;
  TrainOptions options;
  TrainData data;
  loss::LossPtr loss;  ///< with the smoothing of the options
  Batches batches;
  std::shared_ptr<kernel::StepEngine> engine;
  int64_t samples = 0;  ///< r, summed over all ranks

 private:
  void require_shareable() const;
  bool only_looks(const torch::Tensor& labels) const;
  Measured measured_of(std::span<const double> numbers, int64_t samples, int64_t outputs) const;
};

/// Copies the model's parameters to `to`, reusing its tensors if it has any.
void copy_parameters(const kernel::Model& model, std::vector<torch::Tensor>& to);
void set_parameters(const kernel::Model& model, const std::vector<torch::Tensor>& from);
/// Whether the parameters equal `values` bit by bit. Version counters miss some writes.
bool has_parameters(const kernel::Model& model, const std::vector<torch::Tensor>& values);
/// θ ← θ + δ, δ [P] of any floating dtype.
void move_parameters(const kernel::Model& model, const torch::Tensor& delta);
/// Increments the version counters after parameters were written in a way that LibTorch does not
/// count.
void note_moved(const kernel::Model& model);
/// ‖θ‖² [], float64
torch::Tensor parameter_square(const kernel::Model& model);

}  // namespace cdt::train
