/// Where a run's feedbacks come from: what its options and sizes make of a linearization.
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

  /// At the present parameters, which are those of `pass`, for step k. `before` is the feedback of
  /// the same samples until now, or none.
  /// @throws NumericalError if the kernel cannot be computed.
  virtual std::shared_ptr<Feedback> at(int64_t step, const Pass& pass, const Feedback* before) = 0;
  /// One that Feedback::save has written.
  virtual std::shared_ptr<Feedback> saved(int64_t step, const SavedState& state) const = 0;

  /// Whether the feedback of one step may serve for the next.
  virtual bool lasts() const = 0;
  /// The kernel of the parameters as they are now: the next feedback needs no other.
  virtual void adopt(const dynamics::Modes&) {}
  /// The solver of a step that was accepted ran out: the next one may take more.
  virtual void wants_more(int64_t) {}
  virtual FormUsed form() const { return {}; }
  virtual void save(SavedState&) const {}
  virtual void restore(const SavedState&) {}
};

struct FeedbackNeeds {
  bool steers = false;      ///< by Feedback::steer, which keeps a matrix
  double weight_decay = 0;  ///< as part of the control problem
};

/// As the options of the run have it.
/// @throws InvalidArgument if they do not go together.
std::unique_ptr<FeedbackSource> make_feedback_source(std::shared_ptr<const Setup> setup,
                                                     const FeedbackNeeds& needs);

}  // namespace cdt::train
