#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/train/form_feedback.h>
#include <cdt/train/method.h>

#include <cmath>

namespace cdt::train {

using torch::Tensor;

namespace {

/// As RidgeFeedback has it: once the damping exceeds the norm, there is a factor.
constexpr double kMoreDamping = 4;

}  // namespace

FormFeedback::FormFeedback(Make make, Tensor labels, dynamics::Loss loss, double q, double p,
                           std::shared_ptr<const Ranks> ranks)
    : make_(std::move(make)),
      labels_(std::move(labels)),
      ranks_(std::move(ranks)),
      gradient_factor_(dynamics::gradient_factor(
          loss, static_cast<int64_t>(ranks_->sum(static_cast<double>(labels_.numel()))))),
      boost_(std::sqrt(1 + q / p)),
      form_(make_()) {
  const double largest = form_->largest_eigenvalue();  // while nobody has moved the parameters
  unit_rate_ = largest > 0 ? 1 / (gradient_factor_ * largest) : 1;
}

void FormFeedback::design(double rate) { rate_ = rate; }

Tensor FormFeedback::state(const Tensor& outputs) const { return outputs.reshape({-1}) - labels_; }

RidgeStep FormFeedback::step_at(double rate) const {
  if (used_ && !form_->outlasts_writes()) form_ = make_();
  used_ = true;
  for (double damping = 1 / (rate * gradient_factor_ * boost_);; damping *= kMoreDamping) {
    if (auto step = form_->step(0, damping)) return *std::move(step);
  }
}

Proposal FormFeedback::propose(const Tensor& error, double rate) const {
  const double share = rate / rate_;
  const RidgeStep step = step_at(rate_);
  complete_ = step.complete;
  Proposal proposal;
  if (step.delta.defined()) {
    proposal.delta = step.delta * share;
  } else {
    proposal.seed = step.seed * share;
  }
  proposal.prediction = error + share * (step.residuals - error);
  return proposal;
}

Steered FormFeedback::steer(const Tensor&) {
  throw InvalidArgument("a step without a kernel cannot steer other outputs than its own");
}

double FormFeedback::merit(const Tensor& error) const {
  return ranks_->sum(torch::dot(error, error).item<double>());
}

double FormFeedback::distance(const Tensor& error) const { return std::sqrt(merit(error)); }

bool FormFeedback::settled(const Tensor& error, double rounding) const {
  if (distance(error) <= rounding) return true;
  const RidgeStep step = step_at(start_rate(Method::kGuarded, unit_rate_));
  return merit(error) - merit(step.residuals) <= tol::kUnreachableError * merit(error);
}

}  // namespace cdt::train
