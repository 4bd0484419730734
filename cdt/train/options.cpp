#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/text/names.h>
#include <cdt/loss/class_coordinates.h>
#include <cdt/train/method.h>
#include <cdt/train/options.h>

#include <cmath>
#include <cstdlib>
#include <numbers>

namespace cdt::train {
namespace {

constexpr Names<Schedule::Kind, 5> kSchedules{{{"constant", Schedule::Kind::kConstant},
                                               {"inverse", Schedule::Kind::kInverse},
                                               {"exponential", Schedule::Kind::kExponential},
                                               {"cosine", Schedule::Kind::kCosine},
                                               {"step", Schedule::Kind::kStep}}};

}  // namespace

Schedule::Kind parse_schedule(std::string_view name) {
  return parse_name(kSchedules, name, "schedule");
}
std::string to_string(Schedule::Kind kind) { return name_of(kSchedules, kind); }

double Schedule::factor(int64_t step, int64_t steps) const {
  const auto k = static_cast<double>(step);
  switch (kind) {
    case Kind::kConstant:
      return 1;
    case Kind::kInverse:
      return 1 / (1 + decay * k);
    case Kind::kExponential:
      return std::exp(-decay * k);
    case Kind::kCosine:
      return (1 + std::cos(std::numbers::pi * std::min(1.0, k / static_cast<double>(steps)))) / 2;
    case Kind::kStep: {
      const int64_t periods = step / period;
      return std::pow(decay, static_cast<double>(periods));
    }
  }
  throw InvalidArgument(c10::str("unknown schedule ", static_cast<int>(kind)));
}

Relinearization parse_relinearization(std::string_view text) {
  using Kind = Relinearization::Kind;
  if (text == "never") return {Kind::kNever};
  if (text == "kc") return {Kind::kKc};
  if (text == "guard") return {Kind::kGuard};
  const auto number = [&](std::string_view after) {
    const std::string digits(after);
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    CDT_REQUIRE(!digits.empty() && *end == '\0' && value > 0 && std::isfinite(value),
                "relinearize: expected a positive number after the colon, got '", text, "'");
    return value;
  };
  if (text.starts_with("every:")) {
    const double period = number(text.substr(6));
    CDT_REQUIRE(period == std::floor(period) && period < 1e15,
                "relinearize: expected a whole number of steps, got '", text, "'");
    return {Kind::kEvery, static_cast<int64_t>(period)};
  }
  if (text.starts_with("error:")) return {Kind::kError, 0, number(text.substr(6))};
  throw InvalidArgument(
      c10::str("relinearize must be never, every:N, kc, error:TOL or guard, got '", text, "'"));
}

std::string to_string(const Relinearization& policy) {
  switch (policy.kind) {
    case Relinearization::Kind::kNever:
      return "never";
    case Relinearization::Kind::kEvery:
      return c10::str("every:", policy.period);
    case Relinearization::Kind::kKc:
      return "kc";
    case Relinearization::Kind::kError:
      return c10::str("error:", policy.tolerance);
    case Relinearization::Kind::kGuard:
      return "guard";
  }
  throw InvalidArgument(c10::str("unknown policy ", static_cast<int>(policy.kind)));
}

bool only_arrives(const TrainOptions& options) {
  return options.method->solves && !options.method->path && !options.learning_rate &&
         options.weight_decay == 0 && options.shape == 0 && !options.controller &&
         !options.linearization_error &&
         (!options.relinearize || options.relinearize->kind == Relinearization::Kind::kGuard);
}

double smoothing_of(const TrainOptions& options) {
  if (!options.loss->classes()) return 0;
  return options.smoothing.value_or(options.method->controlled ? loss::kUsualSmoothing : 0);
}

namespace {

/// Checks the options that depend on the loss.
void require_loss(const TrainOptions& options) {
  const bool controlled = options.method->controlled;
  CDT_REQUIRE(options.loss->traits().trainable,
              "−yᵀlog ŷ on probabilities is for analysis; train with cross-entropy, on logits");
  CDT_REQUIRE(
      options.loss->traits().has_curvature() || !controlled, options.method.name(),
      " cannot control the loss ", to_string(options.loss),
      ": it has no curvature, its gradient does not "
      "depend on how far the outputs are off, so there is nothing to feed back. Use mse, or "
      "a method without control");
  const bool needs_rate = options.method->by_curvature;
  CDT_REQUIRE(
      !controlled || options.loss->quadratic() || options.loss->classes() || only_arrives(options),
      options.method.name(), " steers quadratic losses and cross-entropy, got ",
      to_string(options.loss),
      ": guarded lowers it without lr, weight decay, shape and relinearize");
  const double bound = options.loss->traits().curvature_bound;
  CDT_REQUIRE((bound > 0 && std::isfinite(bound)) || !needs_rate || options.learning_rate ||
                  only_arrives(options),
              "the loss ", to_string(options.loss),
              bound > 0 ? " has no bound on its curvature" : " has no curvature",
              " to find a rate from: ", options.method.name(), " needs lr");
  if (!options.loss->classes()) {
    CDT_REQUIRE(!options.smoothing, "smoothing belongs to cross-entropy, not to ",
                to_string(options.loss));
    return;
  }
  const double smoothing = smoothing_of(options);
  CDT_REQUIRE(smoothing >= 0 && smoothing < 1, "smoothing must be 0 or more and below 1, got ",
              smoothing);
  if (!controlled) return;
  CDT_REQUIRE(smoothing > 0, options.method.name(),
              " steers towards an equilibrium, and hard labels have none: smoothing must be above "
              "0");
  CDT_REQUIRE(options.shape == 0, "spectral shaping is for quadratic losses, not cross-entropy");
}

/// Forms apply to steps that solve a problem: those of a path, and guarded ones (only_arrives).
void require_form(const TrainOptions& options) {
  if (options.form->open || options.method->path) return;
  CDT_REQUIRE(options.method->solves, "form belongs to path and guarded; ", options.method.name(),
              " solves nothing");
  CDT_REQUIRE(only_arrives(options) && !options.relinearize,
              "a form of guarded steps goes without lr, weight decay, shape, relinearize or "
              "linearization error: those need all modes of the kernel");
}

void require_path(const TrainOptions& options) {
  if (!options.method->path) return;
  require_positive(options.path.start, "the path's start");
  require_positive(options.path.factor, "the path's factor");
  CDT_REQUIRE(options.path.factor <= 1, "the path's factor must be at most 1, got ",
              options.path.factor);
  CDT_REQUIRE(options.loss->traits().has_curvature(), "a path needs a loss with curvature, and ",
              to_string(options.loss), " has no curvature");
  CDT_REQUIRE(options.batch == 0 || options.form->batches,
              "a path takes all samples at once, not batches of ", options.batch,
              "; --form batch takes them");
  CDT_REQUIRE(options.weight_decay == 0,
              "a path has a decay of its own, towards the start; weight decay must be 0, got ",
              options.weight_decay);
  CDT_REQUIRE(!options.learning_rate, "a path has no learning rate");
}

}  // namespace

void require_valid(const TrainOptions& options) {
  CDT_REQUIRE(options.method->make && !options.method.name().empty(),
              "expected a method with a name and a maker, got '", options.method.name(), "'");
  if (options.learning_rate) require_positive(*options.learning_rate, "lr");
  require_positive(options.q, "q");
  require_positive(options.p, "p");
  require_non_negative(options.shape, "shape");
  require_non_negative(options.weight_decay, "weight decay");
  require_non_negative(options.stop_loss, "stop loss");
  require_non_negative(options.max_seconds, "max seconds");
  require_non_negative(options.schedule.decay, "decay");
  CDT_REQUIRE(options.schedule.kind != Schedule::Kind::kStep ||
                  (options.schedule.decay > 0 && options.schedule.decay <= 1),
              "the schedule 'step' multiplies the rate by decay, which must be above 0 and at most "
              "1, got ",
              options.schedule.decay);
  CDT_REQUIRE(options.schedule.period >= 1, "the schedule's period must be 1 or more, got ",
              options.schedule.period);
  CDT_REQUIRE(options.steps >= 0, "steps must be 0 or more, got ", options.steps);
  CDT_REQUIRE(options.batch >= 0, "batch must be 0 (all samples) or more, got ", options.batch);
  CDT_REQUIRE(options.patience >= 0, "patience must be 0 or more, got ", options.patience);
  CDT_REQUIRE(options.plateau >= 0, "plateau must be 0 or more, got ", options.plateau);
  CDT_REQUIRE(options.validate_every >= 1, "validate every must be 1 or more, got ",
              options.validate_every);
  CDT_REQUIRE(options.curvature_products >= 0, "curvature products must be 0 or more, got ",
              options.curvature_products);
  CDT_REQUIRE(options.memory_bytes > 0, "memory must be positive, got ", options.memory_bytes);
  require_loss(options);
  require_path(options);
  require_form(options);
  const bool controlled = options.method->controlled;
  if (options.design != "lqr") {
    control::require_design(options.design);
    CDT_REQUIRE(options.method->designed && !options.controller, "controller ", options.design,
                " belongs to the method cdt, without a controller "
                "of your own, got ",
                options.method.name());
  }
  if (options.controller) {
    CDT_REQUIRE(controlled, "a controller belongs to cdt and guarded; ", options.method.name(),
                " has none");
    CDT_REQUIRE(options.loss->quadratic() || options.loss->classes(),
                "a controller steers quadratic losses and cross-entropy, got ",
                to_string(options.loss));
    CDT_REQUIRE(options.shape == 0,
                "shape belongs to the usual controller, not to one of your own");
    CDT_REQUIRE(options.weight_decay == 0,
                "weight decay goes with the usual controller alone: one of your own knows nothing "
                "of it");
  }
  CDT_REQUIRE(controlled || !options.relinearize, "relinearize belongs to cdt and guarded; ",
              options.method.name(), " uses no kernel");
  CDT_REQUIRE(controlled || !options.linearization_error,
              "the linearization error belongs to cdt and guarded; ", options.method.name(),
              " uses no kernel");
  CDT_REQUIRE(options.method->guarded || !options.relinearize ||
                  options.relinearize->kind != Relinearization::Kind::kGuard,
              "relinearize guard belongs to the method guarded; ", options.method.name(),
              " has no guard");
}

}  // namespace cdt::train
