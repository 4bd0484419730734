/// The training loop: one loop for all methods (method.h).
///
/// Each step is a forward pass (which also gives the losses) and what its method does with it: for
/// CDT one product with the gain, a backward pass seeded with the steered error, an update. A
/// guarded step costs no further pass: the forward pass that judges it is the next step's.
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
  /// `on_step` neither looks at the model, whose parameters may then be those of some steps later,
  /// nor changes it: rows come by the stride (stride.h), and no step takes a pass of its own to
  /// see.
  bool rows_may_lag = false;
  /// Asked before each step, or stride.
  std::function<bool()> stop_requested;
  /// Called every `checkpoint_seconds`, when asked to stop, and at the end.
  std::function<void(const SafeTensors&)> checkpoint;
};

/// What Trainer::step did.
struct StepResult {
  StepRecord record;
  std::optional<Outcome> outcome;  ///< why the run is over, if it is: then no step was taken
};

class Together;

/// Trains `model` in place. The same data, options, threads and device give the same bits.
class Trainer {
 public:
  /// Steps go through `engine`, of the same model; without one, through LibTorch's graph. The
  /// engine of nn::make_engine is faster for ReLU networks on the CPU.
  /// @throws InvalidArgument if options contradict each other, shapes do not fit, or data are not
  ///   finite.
  Trainer(kernel::Model model, TrainData data, TrainOptions options,
          std::shared_ptr<kernel::StepEngine> engine = nullptr);

  /// Takes the kernel of the present parameters on all training samples from a caller that has
  /// computed it already, in `seconds`; ignored where batches need their own, or a loss that is not
  /// quadratic.
  void adopt(const dynamics::Modes& modes, double seconds);

  /// One step: evaluates losses, asks the stopping rules, and unless the run is over moves the
  /// parameters. It goes on from the model as it is: values, buffers or modes that others have
  /// changed since the last step are seen, whatever their version counters say. After the end it
  /// looks again: a longer run goes on (see restore).
  /// @throws NumericalError if the kernel cannot be computed.
  StepResult step();

  /// Makes the linearization and the controller of the next step, and says what that one promises.
  /// With the kernel Θ of all training samples at the present parameters, all that there is to
  /// know. Empty: the method has no controller, or none before its first step.
  /// @throws NumericalError as step.
  control::Certificate prepare(const torch::Tensor& theta = {});

  /// How `run` takes steps without a look: to the same bits, and the same history but for
  /// its times, which within a stride are interpolated.
  void stride_by(const StrideOptions& options);

  /// The next step takes a forward pass of its own, for models whose outputs may have changed since
  /// the last one judged itself: a loss that draws new points, say.
  void look_again() {
    next_.reset();
    left_.outputs.reset();
  }

  /// Steps to the end, or until asked to stop, then takes the best weights if patience wants them,
  /// or those that an epoch under the guard began with, if it raised the objective; a longer run
  /// goes on from where it was.
  /// @throws NumericalError as step.
  TrainResult run(const TrainHooks& hooks = {});

  /// What the controller promised that took the first step; empty before, or if none did.
  const control::Certificate& controller() const { return first_; }
  /// How steps are solved.
  FormUsed form() const { return method_->form(); }
  /// The most CPU threads that steps have use for; 0: any number.
  int most_threads() const;

  /// The state between two steps: parameters, best parameters, linearizations, counters, history.
  SafeTensors checkpoint() const;
  /// Continues from there, to the same bits as an uninterrupted run.
  /// @throws InvalidArgument if the content is no checkpoint, or of other data, another model,
  /// method or settings (fingerprint.h): the message says which. Only what ends a run may change.
  void restore(const SafeTensors& content);

 private:
  friend class Together;  // takes steps for several of them
  using Clock = std::chrono::steady_clock;

  /// The same where the model was not touched otherwise.
  StepResult take_step();
  void notice_changes();
  void remember_parameters() { copy_parameters(setup_->model, left_.parameters); }
  /// Whether all samples are looked at before this step, and an epoch begins.
  bool starts_epoch() const { return step_ % setup_->batches.per_epoch() == 0; }
  void observe(const Pass& pass, StepRecord& row) const;
  void look_back(Pass& pass, StepRecord& row);
  Seen seen_in(const loss::Assessment& found, const StepRecord& row) const;
  StoppingRules::Verdict ask_rules(const Pass& pass, const StepRecord& row);
  int64_t stride(const TrainHooks& hooks);
  struct Judged {
    std::vector<StepRecord> rows;  ///< up to where the rules end the run
    std::optional<int64_t> best;   ///< the last of them whose parameters patience wants
  };
  Judged judge(const std::vector<BlindRow>& found, double begin, double each);
  void keep(const std::vector<StepRecord>& rows);
  TrainResult finish(Outcome outcome);
  double seconds() const;
  void pause();

  std::shared_ptr<const Setup> setup_;
  std::unique_ptr<StepMethod> method_;
  StoppingRules rules_;
  std::optional<EpochGuard> epochs_;  ///< of a guarded run by batches
  StrideOptions stride_options_;
  std::unique_ptr<Strides> strides_;
  int64_t step_ = 0;
  std::vector<StepRecord> history_;
  control::Certificate first_;  ///< of the controller that took the first step
  bool look_ = true;            ///< the next step is one that is looked at
  bool over_ = false;           ///< the last row is of the end, where no step was taken
  StepRecord pending_;          ///< its counts, which the step that goes on from there takes over
  std::vector<torch::Tensor> best_;  ///< parameters with the lowest validation loss
  std::optional<Pass> next_;         ///< the pass that judged the last step
  std::vector<torch::Tensor> last_;  ///< parameters of the last step, if the end took others
  /// The model as the last call left it, to see whether others have changed it since.
  struct Left {
    std::vector<torch::Tensor> parameters;  ///< empty: there was none
    torch::Tensor outputs;                  ///< ŷ of a batch; undefined: not known
    int64_t batch = 0;
  };
  Left left_;
  mutable std::string fingerprint_;  ///< once a checkpoint has asked for it
  double earlier_seconds_ = 0;
  std::optional<Clock::time_point> start_;
};

}  // namespace cdt::train
