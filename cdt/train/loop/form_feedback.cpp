#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/train/loop/form_feedback.h>
#include <cdt/train/method.h>

#include <cmath>
#include <limits>

namespace cdt::train {

using torch::Tensor;

namespace {

/// As RidgeFeedback has it: once the damping exceeds the norm, there is a factor.
constexpr double kMoreDamping = 4;

}  // namespace

FormFeedback::FormFeedback(Make make, loss::LossPtr loss, Tensor labels, Tensor weights, double q,
                           double p, std::shared_ptr<const Ranks> ranks)
    : make_(std::move(make)),
      loss_(std::move(loss)),
      labels_(std::move(labels)),
      weights_(std::move(weights)),
      ranks_(std::move(ranks)),
      square_factor_(
          loss_->scale(static_cast<int64_t>(ranks_->sum(static_cast<double>(labels_.size(0)))),
                       labels_.size(1))),
      boost_(std::sqrt(1 + q / p)),
      form_(make_()) {
  largest_ = form_->largest_eigenvalue();  // while nobody has moved the parameters
  unit_rate_ = largest_ > 0 ? 1 / (square_factor_ * largest_) : 1;
}

void FormFeedback::design(double rate) { rate_ = rate; }

RidgeStep FormFeedback::step_at(double rate) const {
  if (used_ && !form_->outlasts_writes()) form_ = make_();
  used_ = true;
  for (double damping = 1 / (rate * square_factor_ * boost_);; damping *= kMoreDamping) {
    damping_ = damping;
    if (auto step = form_->step(0, damping)) return *std::move(step);
  }
}

control::Certificate FormFeedback::certificate(const Tensor& theta) const {
  using control::Known;
  const double mu = damping_ > 0 ? damping_ : 1 / (rate_ * square_factor_ * boost_);
  const Tensor matrix = form_->matrix();
  // By products it is a bound from below.
  Known largest{kUnknown, largest_, std::numeric_limits<double>::infinity()};
  if (matrix.defined()) largest = Known::exactly(largest_);
  control::Certificate found = control::damped_certificate(mu, largest, {});
  if (matrix.defined() && theta.defined()) {
    // As many as there are residuals: those of A and K are the same beside zeros.
    const int64_t n = form_->residuals().numel();
    Tensor all = torch::linalg_eigvalsh(matrix.to(torch::kFloat64)).clamp_min(0);
    if (const int64_t own = all.numel(); own < n) {
      all = torch::cat({torch::zeros({n - own}, all.options()), all});
    } else {
      all = all.narrow(0, own - n, n);
    }
    const double least = tol::rank_of_computed(matrix.size(0), torch::kFloat32) * largest_;
    found = control::damped_certificate(mu, all, (all <= least).sum().item<int64_t>(),
                                        rate_ * square_factor_);
  }
  found.controller = "damped, by " + form_->solver();
  found.rate = rate_;
  found.gain = 1 / (rate_ * square_factor_ * mu);
  if (last_.residuals.defined()) found.residual = form_->residual(last_, 0, mu);
  found.digest = control::digest_of({torch::tensor({rate_, mu, largest_}, torch::kFloat64)});
  return found;
}

double FormFeedback::promise(const Tensor& residuals) const {
  const Tensor& e = form_->residuals();
  return ranks_->sum(torch::dot(e, e).item<double>()) -
         ranks_->sum(torch::dot(residuals, residuals).item<double>());
}

Proposal FormFeedback::propose(const Tensor&, double rate) const {
  const double share = rate / rate_;
  const RidgeStep step = step_at(rate_);
  complete_ = step.complete;
  last_ = step;
  Proposal proposal;
  if (step.delta.defined()) {
    proposal.delta = step.delta * share;
  } else {
    proposal.seed = step.seed * share;
  }
  const Tensor& e = form_->residuals();
  proposal.promise = promise(e + share * (step.residuals - e));
  return proposal;
}

Steered FormFeedback::steer(const Tensor&) {
  throw InvalidArgument("a step without a kernel cannot steer other outputs than its own");
}

double FormFeedback::merit(const Tensor& outputs) const {
  return ranks_->sum(loss::assess(*loss_, outputs, labels_, weights_).squares);
}

double FormFeedback::distance(const Tensor& outputs) const { return std::sqrt(merit(outputs)); }

bool FormFeedback::settled(const Tensor& outputs, double rounding) const {
  if (distance(outputs) <= rounding) return true;
  const RidgeStep step = step_at(start_rate(Method::kGuarded, unit_rate_));
  return promise(step.residuals) <= tol::kUnreachableError * merit(outputs);
}

}  // namespace cdt::train
