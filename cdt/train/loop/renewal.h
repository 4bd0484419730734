/// When linearizations and their controllers are made anew, and how long they are kept.
#pragma once

#include <cdt/analysis/validity.h>
#include <cdt/core/error.h>
#include <cdt/kernel/linearization.h>
#include <cdt/kernel/local_model.h>
#include <cdt/train/history.h>
#include <cdt/train/loop/feedback_source.h>
#include <cdt/train/loop/guard.h>
#include <cdt/train/setup.h>

namespace cdt::train {

/// A linearization and its controller.
struct Plan {
  std::shared_ptr<Feedback> feedback;
  GuardState guard;
  int64_t step = 0;               ///< where it was made
  analysis::ValidityBound bound;  ///< of the distance from the equilibrium, by the local model
  double hessian_norm = 0;        ///< h there, for the policy kc
  bool stale = false;             ///< renew before the next step
  int64_t last_used = 0;
  std::shared_ptr<const kernel::LocalModel> local;  ///< if it is watched

  /// The local model's bound after a step at `factor` of the rate designed for.
  void tighten_bound(double factor) {
    bound.advance(1 - factor * (1 - feedback->closed_loop_radius()));
  }
};

/// The plans of a run, one for each batch that recurs, within the memory budget.
class Renewal {
 public:
  /// `renews_rate`: each linearization starts with its own default rate, unless the run was told
  /// one.
  Renewal(std::shared_ptr<const Setup> setup, std::unique_ptr<FeedbackSource> source,
          bool renews_rate = false);

  /// The kernel of the present parameters on all samples: the first linearization needs no other.
  /// Ignored if it is not all of its modes.
  void adopt(const dynamics::Modes& modes) { source_->adopt(modes); }

  /// Others have changed the model: under a guard no kernel of before is believed.
  void distrust();
  /// The plan for step k: an old one if it may still be believed, else a new one, at the parameters
  /// of `pass`. Notes in `row` what it cost and how far off the local model is.
  Plan& plan_for(int64_t step, const Pass& pass, StepRecord& row);
  /// A new one.
  /// @throws NumericalError if the kernel cannot be computed.
  Plan& renew(int64_t step, const Pass& pass, StepRecord& row);
  /// Of the plan of a batch, as Feedback::certificate has it; empty if there is none.
  control::Certificate certificate(int64_t batch, const torch::Tensor& theta) const;
  Plan& plan_of(int64_t batch) { return plans_.at(batch); }
  const Plan& plan_of(int64_t batch) const { return plans_.at(batch); }
  /// How many steps from step k on the plan of a batch serves, whatever happens, with a feedback
  /// that steers blind.
  int64_t unwatched_steps(int64_t batch, int64_t step) const;
  /// A step of the plan was accepted: the next ones go on from its damping, and if its solver ran
  /// out, with more of it.
  void accepted(const Plan& plan, bool complete);
  void replace(int64_t batch, const Plan& plan) { plans_.insert_or_assign(batch, plan); }

  const Relinearization& policy() const { return policy_; }
  double learning_rate() const { return learning_rate_; }  ///< α at the first step; NaN before
  int64_t linearizations() const { return linearizations_; }
  /// How its steps are solved, if they are.
  FormUsed form() const { return source_->form(); }

  void save(SavedState& state) const;
  void restore(const SavedState& state);

 private:
  /// Where the local model of a plan is now.
  struct LocalState {
    torch::Tensor outputs;    ///< ŷ_ϑ [b, n_L], float64
    double displacement = 0;  ///< ‖ϑ‖
  };

  Plan saved_plan(const SavedState& saved) const;
  bool watches() const;
  double usual_rate(const Feedback& feedback) const;
  bool outdated(const Plan& plan, int64_t step, const Pass& pass, StepRecord& row) const;
  static LocalState local_state(const Plan& plan, const Pass& pass);
  void forget_old_plans();

  std::shared_ptr<const Setup> setup_;
  std::unique_ptr<FeedbackSource> source_;
  bool renews_rate_;
  Relinearization policy_;
  double share_ = 1;  ///< of the default rate that the last accepted step of a form had
  std::map<int64_t, Plan> plans_;  ///< by batch
  double learning_rate_ = kUnknown;
  int64_t linearizations_ = 0;
};

}  // namespace cdt::train
