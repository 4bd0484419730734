/// The training loop: one loop for all methods (method.h).
///
/// Each step is a forward pass (which also gives the losses), followed by the method's work: for
/// CDT one product with the gain, a backward pass seeded with the steered error, and an update. A
/// guarded step needs no extra pass: the forward pass that judges it is the next step's.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/safetensors.h>
#include <cdt/train/epoch_guard.h>
#include <cdt/train/method.h>
#include <cdt/train/stopping.h>
#include <cdt/train/stride.h>

#include <chrono>
#include <functional>

namespace cdt::train {

struct TrainHooks {
  std::function<void(const StepRecord&)> on_step;
  /// Declares that `on_step` neither reads the model, whose parameters may be some steps ahead, nor
  /// changes it. Rows may then arrive in groups, one per stride (stride.h), without extra forward
  /// passes.
  bool rows_may_lag = false;
  /// Polled before each step, or stride.
  std::function<bool()> stop_requested;
  /// Called every `checkpoint_seconds`, when the run is asked to stop, and at the end.
  std::function<void(const SafeTensors&)> checkpoint;
};

/// The result of Trainer::step.
struct StepResult {
  StepRecord record;
  std::optional<Outcome> outcome;  ///< why the run ended, if it did: then no step was taken
};

class Together;

/// Trains `model` in place. The same data, options, threads and device give the same bits.
class Trainer {
 public:
  /// Steps use `engine`, which must belong to the same model; without one, LibTorch's autograd
  /// graph. The engine of nn::make_engine is faster for ReLU networks on the CPU.
  /// @throws InvalidArgument if options contradict each other, shapes do not fit, or data are not
  ///   finite.
  Trainer(kernel::Model model, TrainData data, TrainOptions options,
          std::shared_ptr<kernel::StepEngine> engine = nullptr);

  /// Reuses the kernel of the current parameters on all training samples, which the caller computed
  /// in `seconds`. Ignored for batches, which need their own kernels, and for losses that are not
  /// quadratic.
  void adopt(const dynamics::Modes& modes, double seconds);

  /// One step: evaluates losses, checks the stopping rules and, unless the run is over, updates the
  /// parameters. It continues from the model as it is, and detects values, buffers or modes that
  /// the caller changed since the last step, whatever their version counters say. Can be called
  /// after the end: the rules are checked again, so a longer run continues (see restore).
  /// @throws NumericalError if the kernel cannot be computed.
  StepResult step();

  /// Computes the linearization and the controller of the next step, and returns the certificate.
  /// Given the kernel Θ of all training samples at the current parameters, all its numbers are
  /// computed. Empty if the method has no controller, or none before its first step.
  /// @throws NumericalError as step.
  control::Certificate prepare(const torch::Tensor& theta = {});

  /// Configures the blind steps of `run`. They give the same bits and the same history, except that
  /// times within a stride are interpolated.
  void stride_by(const StrideOptions& options);

  /// Forces a new forward pass at the next step. For models whose outputs change between steps,
  /// such as a loss that draws new points.
  void look_again() {
    next_.reset();
    left_.outputs.reset();
  }

  /// Steps until the run ends or is asked to stop. At the end it restores the best weights if
  /// patience is on, or the weights at the start of the last epoch if the guard finds that the
  /// epoch raised the objective. A longer run continues from the last step.
  /// @throws NumericalError as step.
  TrainResult run(const TrainHooks& hooks = {});

  /// Certificate of the controller that took the first step; empty before it, or if there was no
  /// controller.
  const control::Certificate& controller() const { return first_; }
  /// Solver of the steps.
  FormUsed form() const { return method_->form(); }
  /// The largest number of CPU threads that steps can use well; 0: any number.
  int most_threads() const;

  /// The state between two steps: parameters, best parameters, linearizations, counters, history.
  SafeTensors checkpoint() const;
  /// Continues from a checkpoint, with the same bits as an uninterrupted run.
  /// @throws InvalidArgument if the content is not a checkpoint, or belongs to other data, another
  ///   model, method or settings (fingerprint.h); the message says which. Only the options that end
  ///   a run may change.
  void restore(const SafeTensors& content);

 private:
  friend class Together;  // advances several trainers at once
  using Clock = std::chrono::steady_clock;

  /// `step` without a check for changes by the caller.
  StepResult take_step();
  void notice_changes();
  void remember_parameters() { copy_parameters(setup_->model, left_.parameters); }
  /// Whether an epoch begins at this step, so that all samples are evaluated before it.
  bool starts_epoch() const { return step_ % setup_->batches.per_epoch() == 0; }
  void observe(const Pass& pass, StepRecord& row) const;
  void look_back(Pass& pass, StepRecord& row);
  Seen seen_in(const loss::Assessment& found, const StepRecord& row) const;
  StoppingRules::Verdict ask_rules(const Pass& pass, const StepRecord& row);
  int64_t stride(const TrainHooks& hooks);
  struct Judged {
    std::vector<StepRecord> rows;  ///< up to the step at which the rules end the run
    std::optional<int64_t> best;   ///< the last of them whose parameters patience keeps
  };
  Judged judge(const std::vector<BlindRow>& found, double begin, double each);
  void keep(const std::vector<StepRecord>& rows);
  TrainResult finish(Outcome outcome);
  double seconds() const;
  void pause();

  std::shared_ptr<const Setup> setup_;
  std::unique_ptr<StepMethod> method_;
  StoppingRules rules_;
  std::optional<EpochGuard> epochs_;  ///< for guarded runs with batches
  StrideOptions stride_options_;
  std::unique_ptr<Strides> strides_;
  int64_t step_ = 0;
  std::vector<StepRecord> history_;
  control::Certificate first_;  ///< certificate of the controller that took the first step
  bool look_ = true;            ///< the next step must be an ordinary one, not blind
  bool over_ = false;           ///< the last row is the final one, after which no step was taken
  StepRecord pending_;          ///< its counts carry over to the step that continues from there
  std::vector<torch::Tensor> best_;  ///< parameters with the lowest validation loss
  std::optional<Pass> next_;         ///< pass that judged the last step
  std::vector<torch::Tensor> last_;  ///< parameters of the last step, if the run ended with others
  /// The model after the last call, to detect changes by the caller.
  struct Left {
    std::vector<torch::Tensor> parameters;  ///< empty: no call yet
    torch::Tensor outputs;                  ///< ŷ of a batch; undefined: unknown
    int64_t batch = 0;
  };
  Left left_;
  mutable std::string fingerprint_;  ///< computed when a checkpoint first needs it
  double earlier_seconds_ = 0;
  std::optional<Clock::time_point> start_;
};

}  // namespace cdt::train
