// The loop itself: passes, losses, when to stop, how it ended.
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/format.h>
#include <cdt/core/names.h>
#include <cdt/kernel/autograd_scope.h>
#include <cdt/train/trainer.h>
#include <fmt/format.h>

#include <cmath>

namespace cdt::train {
namespace {

using torch::Tensor;

constexpr Names<Outcome, 9> kOutcomes{{{"target", Outcome::kTarget},
                                       {"floor", Outcome::kFloor},
                                       {"stuck", Outcome::kStuck},
                                       {"early-stopping", Outcome::kEarlyStopping},
                                       {"plateau", Outcome::kPlateau},
                                       {"steps", Outcome::kSteps},
                                       {"time", Outcome::kTime},
                                       {"interrupted", Outcome::kInterrupted},
                                       {"diverged", Outcome::kDiverged}}};
/// A training loss lower by less than this share is no improvement.
constexpr double kPlateauShare = 1e-4;

void require_samples(const Tensor& x, const Tensor& y, const kernel::Model& model,
                     std::string_view which) {
  require_floating(x, c10::str(which, " inputs"));
  require_floating(y, c10::str(which, " labels"));
  CDT_REQUIRE(x.dim() >= 1 && x.size(0) >= 1, "there must be ", which,
              " samples; the inputs have shape ", x.sizes());
  CDT_REQUIRE(y.dim() == 2 && y.size(0) == x.size(0), which, " labels must have shape [", x.size(0),
              ", n_L], not ", y.sizes());
  require_finite(x, c10::str(which, " inputs"));
  require_finite(y, c10::str(which, " labels"));
  CDT_REQUIRE(x.device() == model.device() && y.device() == model.device(), which,
              " samples must lie on the model's device, ", model.device());
}

void require_weights(Tensor& weights, int64_t count, const kernel::Model& model,
                     std::string_view name) {
  if (!weights.defined()) return;
  require_shape(weights, {count}, name);
  require_finite(weights, name);
  CDT_REQUIRE(weights.min().item<double>() > 0, name, " must be positive; the smallest is ",
              weights.min().item<double>());
  weights = weights.to(model.device(), torch::kFloat64);
}

}  // namespace

std::string to_string(Outcome outcome) { return name_of(kOutcomes, outcome); }

Trainer::Trainer(kernel::Model model, TrainData data, TrainOptions options)
    : model_(std::move(model)),
      data_(std::move(data)),
      options_(options),
      objective_(options_.loss, smoothing_of(options_)),
      policy_(options_.relinearize.value_or(Relinearization{options_.method == Method::kGuarded
                                                                ? Relinearization::Kind::kGuard
                                                                : Relinearization::Kind::kNever})),
      batches_(data_.x.defined() && data_.x.dim() > 0 ? data_.x.size(0) : 0, options_.batch,
               options_.reshuffle, options_.seed) {
  require_valid(options_);
  require_samples(data_.x, data_.y, model_, "training");
  CDT_REQUIRE(data_.x_val.defined() == data_.y_val.defined(),
              "validation needs inputs and labels, or neither");
  if (data_.x_val.defined()) {
    require_samples(data_.x_val, data_.y_val, model_, "validation");
    CDT_REQUIRE(data_.y_val.size(1) == data_.y.size(1), "validation labels must have ",
                data_.y.size(1), " outputs a sample, not ", data_.y_val.size(1));
    data_.y_val = data_.y_val.to(torch::kFloat64);
  }
  CDT_REQUIRE(options_.patience == 0 || data_.x_val.defined(),
              "--patience needs validation samples, and there are none");
  if (options_.loss == dynamics::Loss::kCrossEntropy) {
    CDT_REQUIRE(data_.y.size(1) >= 2,
                "cross-entropy needs two classes or more, a column of labels "
                "for each; there is ",
                data_.y.size(1));
    require_distributions(data_.y, "training labels");
    if (data_.y_val.defined()) require_distributions(data_.y_val, "validation labels");
    CDT_REQUIRE(!data_.sample_weights.defined() && !data_.output_weights.defined(),
                "weights of samples or outputs are for quadratic losses, not cross-entropy");
  }
  require_weights(data_.sample_weights, data_.x.size(0), model_, "sample weights");
  require_weights(data_.output_weights, data_.y.size(1), model_, "output weights");
  CDT_REQUIRE(is_controlled(options_.method) ||
                  !(data_.sample_weights.defined() || data_.output_weights.defined()),
              "weights enter the controller's Q; ", to_string(options_.method),
              " has no controller");
  data_.x = data_.x.to(model_.dtype());
  data_.y = data_.y.to(torch::kFloat64);
  if (data_.x_val.defined()) data_.x_val = data_.x_val.to(model_.dtype());
  if (is_optimizer(options_.method)) {
    optimizer_ = std::make_unique<Optimizer>(model_, options_.method, options_.weight_decay);
  }
}

Trainer::Trainer(const nn::Mlp& model, TrainData data, TrainOptions options)
    : Trainer(kernel::Model(model), std::move(data), options) {
  if (!optimizer_) network_ = model;
}

Trainer::Trainer(const nn::Network& model, TrainData data, TrainOptions options)
    : Trainer(kernel::Model(model), std::move(data), options) {
  if (const auto mlp = model.as<nn::MlpImpl>(); mlp && !optimizer_) network_ = nn::Mlp(mlp);
}

void Trainer::adopt(const dynamics::Modes& modes, double seconds) {
  CDT_REQUIRE(modes.size() == data_.y.numel(), "the kernel must have ", data_.y.numel(),
              " rows, not ", modes.size());
  if (step_ > 0 || !batches_.all() || !dynamics::is_quadratic(options_.loss)) return;
  adopted_ = modes;
  if (is_controlled(options_.method)) earlier_seconds_ += seconds;
}

Trainer::Pass Trainer::forward(int64_t step) {
  Pass pass;
  pass.batch = batches_.id(step);
  pass.x = data_.x;
  pass.labels = data_.y;
  if (!batches_.all()) {
    const Tensor rows = batches_.rows(step).to(data_.x.device());
    pass.x = data_.x.index_select(0, rows);
    pass.labels = data_.y.index_select(0, rows);
  }
  if (descends(pass.x)) {
    pass.descent.emplace(*network_, pass.x);
    pass.outputs = pass.descent->outputs();
  } else {
    pass.outputs = model_.forward(pass.x);
  }
  const auto shape = pass.labels.sizes();
  CDT_REQUIRE(pass.outputs.numel() == pass.labels.numel() && pass.outputs.size(0) == shape[0],
              "the model's outputs have shape ", pass.outputs.sizes(), ", the labels ", shape);
  pass.values = pass.outputs.detach().reshape(shape).to(torch::kFloat64);
  pass.found = objective_.assess(pass.values, pass.labels);
  return pass;
}

bool Trainer::descends(const Tensor& x) const {
  return network_ && nn::DescentPass::takes(*network_, x);
}

double Trainer::evaluate_loss(const Tensor& x, const Tensor& y) {
  const torch::NoGradGuard no_graph;
  const Tensor outputs = descends(x) ? nn::DescentPass::evaluate(*network_, x) : model_.forward(x);
  return objective_.assess(outputs.reshape(y.sizes()).to(torch::kFloat64), y).loss;
}

void Trainer::observe(const Pass& pass, StepRecord& row) {
  const bool last = step_ >= options_.steps;
  if (batches_.all()) {
    row.train_loss = pass.found.loss;
  } else if (last || step_ % batches_.per_epoch() == 0) {
    row.train_loss = evaluate_loss(data_.x, data_.y);
  }
  if (data_.x_val.defined() && (last || step_ % options_.validate_every == 0)) {
    row.val_loss = evaluate_loss(data_.x_val, data_.y_val);
  }
}

bool Trainer::should_stop(const Pass& pass, const StepRecord& row) {
  const auto stop = [&](Outcome outcome) {
    outcome_ = outcome;
    return true;
  };
  if (!std::isfinite(pass.found.loss) ||
      (!std::isnan(row.train_loss) && !std::isfinite(row.train_loss))) {
    return stop(Outcome::kDiverged);
  }
  if (row.val_loss < best_val_loss_ || (best_step_ < 0 && std::isfinite(row.val_loss))) {
    best_val_loss_ = row.val_loss;
    best_step_ = step_;
    if (options_.patience > 0) copy_parameters(best_);
  }
  // A loss with smoothed labels has its minimum above zero: what counts is the distance from there.
  const bool near_minimum =
      batches_.all() && objective_.smoothing() > 0 && pass.found.misfit <= options_.stop_loss;
  if (options_.stop_loss > 0 && (row.train_loss <= options_.stop_loss || near_minimum)) {
    return stop(Outcome::kTarget);
  }
  if (step_ >= options_.steps) return stop(Outcome::kSteps);
  if (options_.patience > 0 && best_step_ >= 0 && step_ - best_step_ >= options_.patience) {
    return stop(Outcome::kEarlyStopping);
  }
  if (options_.plateau > 0 && !std::isnan(row.train_loss)) {
    if (!(row.train_loss > plateau_loss_ * (1 - kPlateauShare))) {
      plateau_loss_ = row.train_loss;
      plateau_step_ = step_;
    }
    if (step_ - plateau_step_ >= options_.plateau) return stop(Outcome::kPlateau);
  }
  if (options_.max_seconds > 0 && seconds() >= options_.max_seconds) return stop(Outcome::kTime);
  return false;
}

TrainResult Trainer::run(const TrainHooks& hooks) {
  const kernel::AutogradScope scope;
  start_ = Clock::now();
  next_.reset();
  double last_checkpoint = seconds();
  const auto save = [&] {
    if (hooks.checkpoint) hooks.checkpoint(checkpoint());
    last_checkpoint = seconds();
  };
  for (;;) {
    if (hooks.stop_requested && hooks.stop_requested()) {
      outcome_ = Outcome::kInterrupted;
      break;
    }
    if (seconds() - last_checkpoint >= options_.checkpoint_seconds) save();
    Pass pass = next_ && next_->batch == batches_.id(step_) ? std::move(*next_) : forward(step_);
    next_.reset();
    StepRecord row;
    row.step = step_;
    observe(pass, row);
    bool stop = should_stop(pass, row);
    if (!stop) {
      row.refreshed = std::exchange(pending_.refreshed, 0);
      row.rejected = std::exchange(pending_.rejected, 0);
      advance(pass, row);
      stop = outcome_ == Outcome::kFloor || outcome_ == Outcome::kStuck;
    }
    row.seconds = seconds();
    if (!stop) {
      history_.push_back(row);
      ++step_;
      if (hooks.on_step) hooks.on_step(row);
      continue;
    }
    pending_ = row;
    save();  // before the last row: a longer run continues from here
    history_.push_back(row);
    if (hooks.on_step) hooks.on_step(row);
    break;
  }
  if (outcome_ == Outcome::kInterrupted) save();
  TrainResult result;
  finish(result);
  return result;
}

void Trainer::finish(TrainResult& result) {
  result.outcome = outcome_;
  result.steps = step_;
  result.best_step = best_step_;
  result.best_val_loss = best_val_loss_;
  result.linearizations = linearizations_;
  result.rejected = rejected_;
  result.learning_rate = learning_rate_;
  result.seconds = seconds();
  if (outcome_ != Outcome::kInterrupted) {
    result.train_loss = history_.back().train_loss;
    result.val_loss = history_.back().val_loss;
    if (options_.patience > 0 && best_step_ >= 0 && best_step_ < step_) {
      set_parameters(best_);
      result.train_loss = kUnknown;
      result.val_loss = best_val_loss_;
    }
  }
  if (std::isnan(result.train_loss)) result.train_loss = evaluate_loss(data_.x, data_.y);
  if (std::isnan(result.val_loss) && data_.x_val.defined()) {
    result.val_loss = evaluate_loss(data_.x_val, data_.y_val);
  }
  result.history = history_;
}

double Trainer::seconds() const {
  return earlier_seconds_ + std::chrono::duration<double>(Clock::now() - start_).count();
}

void Trainer::copy_parameters(std::vector<Tensor>& to) const {
  const torch::NoGradGuard no_graph;
  const auto& parameters = model_.parameters();
  if (to.empty()) {
    for (const Tensor& parameter : parameters) to.push_back(torch::empty_like(parameter));
  }
  for (size_t i = 0; i < parameters.size(); ++i) to[i].copy_(parameters[i]);
}

void Trainer::set_parameters(const std::vector<Tensor>& from) {
  const torch::NoGradGuard no_graph;
  for (size_t i = 0; i < from.size(); ++i) Tensor(model_.parameters()[i]).copy_(from[i]);
}

std::string TrainResult::in_words() const {
  std::string text;
  switch (outcome) {
    case Outcome::kTarget:
      text = fmt::format("Converged: the training loss reached its target after {}.",
                         count_of(steps, "step"));
      break;
    case Outcome::kFloor:
      text = fmt::format(
          "Converged after {}: what is left of the error is rounding, or nothing that labels can "
          "move.",
          count_of(steps, "step"));
      break;
    case Outcome::kStuck:
      text = fmt::format(
          "Stopped after {}: no step lowers the error any more, although labels could. Networks "
          "with "
          "kinks (relu) can end so; a wider network, another --activation or --seed may help.",
          count_of(steps, "step"));
      break;
    case Outcome::kEarlyStopping:
      text = fmt::format(
          "Stopped early after {}: the validation loss was best at step {}, and those weights were "
          "kept.",
          count_of(steps, "step"), best_step);
      break;
    case Outcome::kPlateau:
      text = fmt::format("Stopped after {}: the training loss no longer improves.",
                         count_of(steps, "step"));
      break;
    case Outcome::kSteps:
      text = fmt::format("Stopped at the limit of {}.", count_of(steps, "step"));
      break;
    case Outcome::kTime:
      text = fmt::format("Stopped at the time limit after {}.", count_of(steps, "step"));
      break;
    case Outcome::kInterrupted:
      text = fmt::format("Interrupted after {}; --resume continues.", count_of(steps, "step"));
      break;
    case Outcome::kDiverged:
      return fmt::format(
          "DIVERGED at step {}: the training loss is no longer a finite number. Lower the learning "
          "rate, or let --method guarded choose it.",
          steps);
  }
  if (linearizations > 1 || rejected > 0) {
    text += fmt::format(" The kernel was refreshed {}, {} rejected.",
                        linearizations == 2 ? "once" : count_of(linearizations - 1, "time"),
                        rejected == 1 ? "1 step was" : count_of(rejected, "step") + " were");
  }
  if (outcome != Outcome::kEarlyStopping && best_step >= 0 && best_val_loss < 0.95 * val_loss) {
    text += fmt::format(
        " The validation loss was lower before, {:.3g} at step {}: --patience stops there.",
        best_val_loss, best_step);
  }
  return text;
}

}  // namespace cdt::train
