/// What a run trains, on what, and how steps are computed: the same from its first step to its
/// last.
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
  torch::Tensor weights;  ///< of the errors [b·n_L]; undefined: all 1
  loss::Assessment found;
  double objective = 0;  ///< of these samples, weights, smoothing and weight decay included

  /// θ ← (1 − shrink) θ − rate·Jᵀ seed, seed [b·n_L] in any shape; once.
  void descend(const torch::Tensor& seed, double rate, double shrink = 0) {
    step->descend(seed.reshape(step->outputs().sizes()), rate, shrink);
  }
  /// Jᵀ seed by parameter; once, of a run whose method wants gradients.
  std::vector<torch::Tensor> gradients(const torch::Tensor& seed) {
    return step->gradients(seed.reshape(step->outputs().sizes()));
  }
};

/// What a pass shows of its samples.
struct Measured {
  loss::Assessment found;
  double objective = kUnknown;  ///< weights, smoothing and weight decay included
};

/// Of all training samples.
struct Whole {
  double loss = kUnknown;
  double objective = kUnknown;  ///< what training lowers: weights, smoothing, decay included
};

struct Setup {
  /// Checks all of it. Without an engine, steps go through LibTorch's graph.
  /// @throws InvalidArgument if options contradict each other or data do not fit.
  Setup(kernel::Model model, TrainData data, const TrainOptions& options,
        std::shared_ptr<kernel::StepEngine> engine);

  /// The pass of step k, at the present parameters.
  /// @throws InvalidArgument if the model's outputs are not shaped like the labels.
  Pass forward(int64_t step) const;
  /// The same of some samples, [b] of int64; undefined: all.
  Pass forward(const torch::Tensor& rows) const;
  double loss_of(const torch::Tensor& x, const torch::Tensor& y) const;
  Whole whole() const;
  /// All that there is to read of outputs at the present parameters, [k] float64 on the device; and
  /// what it says, of labels like these.
  torch::Tensor numbers(const torch::Tensor& outputs, const torch::Tensor& labels,
                        const torch::Tensor& weights) const;
  Measured measured(std::span<const double> numbers, const torch::Tensor& labels) const;
  /// The same of the samples of all ranks.
  /// @throws NumericalError if the parameters of another rank are not those of this one.
  Measured measured_together(const torch::Tensor& outputs, const torch::Tensor& labels,
                             const torch::Tensor& weights) const;
  /// Inputs and labels of the samples that step k sees.
  torch::Tensor inputs(int64_t step) const;
  torch::Tensor labels(int64_t step) const;
  /// Of the errors of these samples [b·n_L]; undefined if all weigh the same.
  torch::Tensor weights(int64_t step) const;
  /// Whether the validation loss is to be evaluated before step k, or at the end.
  bool validates(int64_t step) const {
    return data.x_val.defined() && (step >= options.steps || step % options.validate_every == 0);
  }
  /// The schedule's α_k/α.
  double factor(int64_t step) const { return options.schedule.factor(step, options.steps); }

  kernel::Model model;
  TrainOptions options;
  TrainData data;
  loss::LossPtr loss;  ///< smoothed as the options want it
  Batches batches;
  std::shared_ptr<kernel::StepEngine> engine;
  int64_t samples = 0;  ///< r of all ranks

 private:
  void require_shareable() const;
  bool only_looks(const torch::Tensor& labels) const;
  Measured measured_of(std::span<const double> numbers, int64_t samples, int64_t outputs) const;
};

/// Copies of the model's parameters; into what `to` holds already, if it does.
void copy_parameters(const kernel::Model& model, std::vector<torch::Tensor>& to);
void set_parameters(const kernel::Model& model, const std::vector<torch::Tensor>& from);
/// Whether its parameters are these, bit by bit: version counters do not count every write.
bool has_parameters(const kernel::Model& model, const std::vector<torch::Tensor>& values);
/// θ ← θ + δ, δ [P] of any floating dtype.
void move_parameters(const kernel::Model& model, const torch::Tensor& delta);
/// Others moved the parameters where LibTorch does not count: it counts once more.
void note_moved(const kernel::Model& model);
/// ‖θ‖² [], float64
torch::Tensor parameter_square(const kernel::Model& model);

}  // namespace cdt::train
