/// Makes the feedbacks of a run, as its options and sizes require.
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/loop/feedback.h>
#include <cdt/train/setup.h>

#include <memory>

namespace cdt::train {

class FeedbackSource {
 public:
  virtual ~FeedbackSource() = default;

  /// The feedback at the current parameters, those of `pass`, for step k. `before` is the previous
  /// feedback of the same samples, or null.
  /// @throws NumericalError if the kernel cannot be computed.
  virtual std::shared_ptr<Feedback> at(int64_t step, const Pass& pass, const Feedback* before) = 0;
  /// Restores a feedback from Feedback::save.
  virtual std::shared_ptr<Feedback> saved(int64_t step, const SavedState& state) const = 0;

  /// Whether the feedback of one step can be reused for the next.
  virtual bool lasts() const = 0;
  /// Supplies the kernel of the current parameters, for the next feedback.
  virtual void adopt(const dynamics::Modes&) {}
  /// Called if the solver of an accepted step reached its limit: the next may use more.
  virtual void wants_more(int64_t) {}
  virtual FormUsed form() const { return {}; }
  virtual void save(SavedState&) const {}
  virtual void restore(const SavedState&) {}
};

struct FeedbackNeeds {
  bool steers = false;      ///< uses Feedback::steer, which stores a matrix
  double weight_decay = 0;  ///< treated as part of the control problem
};

/// Makes the source for the options of the run.
/// @throws InvalidArgument if the options contradict each other.
std::unique_ptr<FeedbackSource> make_feedback_source(std::shared_ptr<const Setup> setup,
                                                     const FeedbackNeeds& needs);

}  // namespace cdt::train
