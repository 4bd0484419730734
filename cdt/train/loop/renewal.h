/// When linearizations and their controllers are recomputed, and how long they are kept.
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
  int64_t step = 0;               ///< step at which it was made
  analysis::ValidityBound bound;  ///< bound on the distance from the equilibrium
  double hessian_norm = 0;        ///< h at the linearization, for the policy kc
  bool stale = false;             ///< relinearize before the next step
  int64_t last_used = 0;
  std::shared_ptr<const kernel::LocalModel> local;  ///< if it is monitored

  /// Updates the bound after a step at `factor` of the design rate.
  void tighten_bound(double factor) {
    bound.advance(1 - factor * (1 - feedback->closed_loop_radius()));
  }
};

/// The plans of a run, one for each batch that recurs, within the memory budget.
class Renewal {
 public:
  /// `renews_rate`: each linearization starts with its own default rate, unless the options set
  /// one.
  Renewal(std::shared_ptr<const Setup> setup, std::unique_ptr<FeedbackSource> source,
          bool renews_rate = false);

  /// Supplies the kernel of the current parameters on all samples, for the first linearization.
  /// Ignored if modes are missing.
  void adopt(const dynamics::Modes& modes) { source_->adopt(modes); }

  /// The caller changed the model: a guarded run discards its older kernels.
  void distrust();
  /// The plan for step k: the existing one if it is still valid, otherwise a new one at the
  /// parameters of `pass`. Records in `row` its cost and the error of the local model.
  Plan& plan_for(int64_t step, const Pass& pass, StepRecord& row);
  /// Makes a new plan.
  /// @throws NumericalError if the kernel cannot be computed.
  Plan& renew(int64_t step, const Pass& pass, StepRecord& row);
  /// Certificate of a batch's plan, as Feedback::certificate; empty if there is no plan.
  control::Certificate certificate(int64_t batch, const torch::Tensor& theta) const;
  Plan& plan_of(int64_t batch) { return plans_.at(batch); }
  const Plan& plan_of(int64_t batch) const { return plans_.at(batch); }
  /// For how many steps from step k on the plan of a batch is valid without checks, with blind
  /// steering.
  int64_t unwatched_steps(int64_t batch, int64_t step) const;
  /// A step of the plan was accepted: the next plans start from its damping, and use a larger
  /// solver limit if it was not `complete`.
  void accepted(const Plan& plan, bool complete);
  void replace(int64_t batch, const Plan& plan) { plans_.insert_or_assign(batch, plan); }

  const Relinearization& policy() const { return policy_; }
  double learning_rate() const { return learning_rate_; }  ///< α at the first step; NaN before
  int64_t linearizations() const { return linearizations_; }
  /// Solver of the steps, if a form solves them.
  FormUsed form() const { return source_->form(); }

  void save(SavedState& state) const;
  void restore(const SavedState& state);

 private:
  /// Current state of a plan's local model.
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
  double share_ = 1;  ///< share of the default rate at the last accepted step of a form
  std::map<int64_t, Plan> plans_;  ///< by batch
  double learning_rate_ = kUnknown;
  int64_t linearizations_ = 0;
};

}  // namespace cdt::train
