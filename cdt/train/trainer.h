/// The training loop: one loop for gradient descent, CDT, guarded CDT and LibTorch's optimizers.
///
/// Each step is a forward pass (which also gives the losses), one product with the gain, a backward
/// pass seeded with the steered error, an update. A guarded step costs no further pass: the forward
/// pass that judges it is the next step's.
#pragma once

#include <cdt/core/safetensors.h>
#include <cdt/kernel/model.h>
#include <cdt/nn/descent_pass.h>
#include <cdt/train/batches.h>
#include <cdt/train/feedback.h>
#include <cdt/train/guard.h>
#include <cdt/train/history.h>
#include <cdt/train/objective.h>
#include <cdt/train/optimizer.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>

namespace cdt::train {

struct TrainData {
  torch::Tensor x;      ///< [r, …]
  torch::Tensor y;      ///< [r, n_L]; for the cross entropy a distribution over classes
  torch::Tensor x_val;  ///< undefined: no validation
  torch::Tensor y_val;
  torch::Tensor sample_weights;  ///< [r] in the controller's Q; undefined: all 1
  torch::Tensor output_weights;  ///< [n_L], likewise
};

enum class Outcome {
  kTarget,         ///< the training loss (above its minimum, for smoothed labels) reached stop_loss
  kFloor,          ///< nothing is left but rounding, and errors that no label can move
  kStuck,          ///< no step, nor two in a row, helps any more, though labels could
  kEarlyStopping,  ///< the validation loss did not improve for `patience` steps
  kPlateau,        ///< the training loss did not improve for `plateau` steps
  kSteps,          ///< the step limit
  kTime,           ///< the time limit
  kInterrupted,    ///< the caller asked to stop; a checkpoint was handed out
  kDiverged,       ///< the training loss is no longer finite
};
std::string to_string(Outcome outcome);

struct TrainResult {
  Outcome outcome = Outcome::kSteps;
  int64_t steps = 0;
  double train_loss = kUnknown;  ///< of the weights that the model now has
  double val_loss = kUnknown;
  int64_t best_step = -1;  ///< with the lowest validation loss seen; −1: none
  double best_val_loss = kUnknown;
  int64_t linearizations = 0;
  int64_t rejected = 0;
  double learning_rate = kUnknown;  ///< α at the first step
  double seconds = 0;
  std::vector<StepRecord> history;

  bool diverged() const { return outcome == Outcome::kDiverged; }
  /// A few sentences: how it ended, what it took, what to look at.
  std::string in_words() const;
};

struct TrainHooks {
  std::function<void(const StepRecord&)> on_step;
  std::function<bool()> stop_requested;
  /// Called every `checkpoint_seconds`, when asked to stop, and at the end.
  std::function<void(const SafeTensors&)> checkpoint;
};

/// Trains `model` in place. The same data, options, threads and device give the same bits.
class Trainer {
 public:
  /// @throws InvalidArgument if options contradict each other, shapes do not fit, or data are not
  ///   finite.
  Trainer(kernel::Model model, TrainData data, TrainOptions options);
  /// The same with faster steps, where nn::DescentPass takes the network.
  Trainer(const nn::Mlp& model, TrainData data, TrainOptions options);
  Trainer(const nn::Network& model, TrainData data, TrainOptions options);

  /// Takes the kernel of the present parameters on all training samples from whoever has computed
  /// it already, in `seconds`; ignored where batches need their own, or a loss that is not
  /// quadratic.
  void adopt(const dynamics::Modes& modes, double seconds);

  /// Runs to the end, or until asked to stop.
  /// @throws NumericalError if the kernel cannot be computed.
  TrainResult run(const TrainHooks& hooks = {});

  /// The state between two steps: parameters, best parameters, linearizations, counters, history.
  SafeTensors checkpoint() const;
  /// Continues from there, to the same bits as an uninterrupted run.
  /// @throws InvalidArgument if the content is no checkpoint, or not of such a model and method.
  void restore(const SafeTensors& content);

 private:
  using Clock = std::chrono::steady_clock;

  /// A forward pass on the samples of one step.
  struct Pass {
    int64_t batch = 0;
    torch::Tensor x;
    torch::Tensor outputs;  ///< ŷ with its graph, unless there is a descent
    std::optional<nn::DescentPass> descent;
    torch::Tensor values;  ///< ŷ [b, n_L], float64
    torch::Tensor labels;  ///< y [b, n_L], float64
    Assessment found;
  };
  /// A linearization and its controller.
  struct Plan {
    std::shared_ptr<Feedback> feedback;
    GuardState guard;
    int64_t step = 0;         ///< where it was made
    double start_error = 0;   ///< distance from the equilibrium there
    double bound = 0;         ///< of that distance now, by the local model
    double hessian_norm = 0;  ///< h there, for the policy kc
    bool stale = false;       ///< renew before the next step
    int64_t last_used = 0;
    torch::Tensor outputs;                  ///< ŷ(k₀) [b, n_L], if the local model is watched
    std::vector<torch::Tensor> parameters;  ///< θ(k₀), likewise
  };
  /// Where the local model of a plan is now.
  struct LocalState {
    torch::Tensor outputs;    ///< ŷ_ϑ [b, n_L], float64
    double displacement = 0;  ///< ‖ϑ‖
  };

  Pass forward(int64_t step);
  torch::Tensor weights_of(const torch::Tensor& rows) const;
  std::vector<torch::Tensor> gradient(const Pass& pass, const torch::Tensor& seed) const;
  void descend(Pass& pass, const torch::Tensor& seed, double rate, double shrink);

  /// Whether a pass on x goes without a graph.
  bool descends(const torch::Tensor& x) const;
  double evaluate_loss(const torch::Tensor& x, const torch::Tensor& y);
  void observe(const Pass& pass, StepRecord& row);
  bool should_stop(const Pass& pass, const StepRecord& row);
  void finish(TrainResult& result);

  double factor() const { return options_.schedule.factor(step_, options_.steps); }
  double base_rate(const Pass& pass);
  void advance(Pass& pass, StepRecord& row);
  void advance_gd(Pass& pass, StepRecord& row);
  void advance_optimizer(const Pass& pass, StepRecord& row);
  void advance_cdt(Pass& pass, StepRecord& row);
  void advance_guarded(Pass& pass, StepRecord& row);
  bool escape(const Pass& pass, StepRecord& row);

  Plan& plan_for(const Pass& pass, StepRecord& row);
  std::shared_ptr<Feedback> make_feedback(const Pass& pass);
  std::shared_ptr<Feedback> make_feedback(const dynamics::Modes& modes,
                                          const torch::Tensor& curvature, int64_t step);
  torch::Tensor labels_at(int64_t step) const;
  bool keeps_origin() const;
  Plan& linearize(const Pass& pass, StepRecord& row);
  bool outdated(Plan& plan, const Pass& pass, StepRecord& row);
  LocalState local_state(const Plan& plan, const Pass& pass);
  void forget_old_plans();
  Proposal propose(const Plan& plan, const Pass& pass, const torch::Tensor& state, double rate);
  double parameter_square() const;

  void copy_parameters(std::vector<torch::Tensor>& to) const;
  void set_parameters(const std::vector<torch::Tensor>& from);
  double seconds() const;

  kernel::Model model_;
  std::optional<nn::Mlp> network_;  ///< the model, if it is one that may have descent passes
  TrainData data_;
  TrainOptions options_;
  Objective objective_;
  Relinearization policy_;
  Batches batches_;
  std::unique_ptr<Optimizer> optimizer_;

  // The state that a checkpoint holds.
  int64_t step_ = 0;
  double learning_rate_ = kUnknown;
  double earlier_seconds_ = 0;
  int64_t linearizations_ = 0;
  int64_t rejected_ = 0;
  int64_t best_step_ = -1;
  double best_val_loss_ = kUnknown;
  int64_t plateau_step_ = 0;
  double plateau_loss_ = kUnknown;
  StepRecord pending_;  ///< counts of the last row of a run that ended at a floor
  std::vector<torch::Tensor> best_;
  std::map<int64_t, Plan> plans_;  ///< by batch
  std::vector<StepRecord> history_;

  // What one run keeps to itself.
  Clock::time_point start_;
  std::optional<Pass> next_;          ///< the pass that judged the last step
  std::vector<torch::Tensor> saved_;  ///< θ before a step that the guard judges
  std::optional<dynamics::Modes> adopted_;
  Outcome outcome_ = Outcome::kSteps;
};

}  // namespace cdt::train
