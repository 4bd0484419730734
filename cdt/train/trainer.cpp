#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/record/autograd_scope.h>
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/trainer.h>

#include <algorithm>
#include <cmath>

namespace cdt::train {

Trainer::Trainer(kernel::Model model, TrainData data, TrainOptions options,
                 std::shared_ptr<kernel::StepEngine> engine)
    : setup_(
          std::make_shared<Setup>(std::move(model), std::move(data), options, std::move(engine))),
      method_(options.method->make(setup_)),
      rules_(options) {
  const bool by_batches = !setup_->batches.all() || options.form->batches;
  if (options.method->guarded && by_batches) epochs_.emplace(setup_);
  stride_by({});
}

void Trainer::stride_by(const StrideOptions& options) {
  stride_options_ = options;
  strides_ = std::make_unique<Strides>(setup_, *method_, options);
}

void Trainer::adopt(const dynamics::Modes& modes, double seconds) {
  CDT_REQUIRE(modes.size() == setup_->data.y.numel(), "the kernel must have ",
              setup_->data.y.numel(), " rows, got ", modes.size());
  if (step_ > 0 || !setup_->batches.all() || !setup_->options.loss->quadratic()) return;
  method_->adopt(modes);
  if (setup_->options.method->controlled) earlier_seconds_ += seconds;
}

control::Certificate Trainer::prepare(const torch::Tensor& theta) {
  const kernel::AutogradScope scope;
  notice_changes();
  Pass pass = next_ && next_->batch == setup_->batches.id(step_) ? std::move(*next_)
                                                                 : setup_->forward(step_);
  method_->prepare(step_, pass, pending_);
  left_.outputs = pass.values;  // to detect changes of the model before the step
  left_.batch = pass.batch;
  remember_parameters();
  next_ = std::move(pass);
  return method_->certificate(theta);
}

void Trainer::observe(const Pass& pass, StepRecord& row) const {
  const TrainData& data = setup_->data;
  const bool last = step_ >= setup_->options.steps;
  if (setup_->batches.all()) {
    row.train_loss = pass.found.loss;
    row.objective = pass.objective + method_->penalty();
  } else if (last || starts_epoch()) {
    const Whole whole = setup_->whole();
    row.train_loss = whole.loss;
    row.objective = whole.objective;
  }
  const bool judged = epochs_ && starts_epoch();
  if (setup_->validates(step_) || (judged && data.x_val.defined())) {
    row.val_loss = setup_->loss_of(data.x_val, data.y_val);
  }
}

/// With an epoch guard: judges the last epoch by all samples.
void Trainer::look_back(Pass& pass, StepRecord& row) {
  // If another batch has driven this batch's outputs to infinity, do not wait for the end.
  const bool lost = !std::isfinite(pass.found.loss);
  if (!epochs_ || !(lost || starts_epoch())) return;
  const int64_t before = epochs_->rejected();
  Whole here;
  if (!lost) here = {row.train_loss, row.objective};
  const bool kept = epochs_->accept(step_, here);
  method_->damp(epochs_->share());
  if (kept) return;
  pending_.rejected += epochs_->rejected() - before;
  pass = setup_->forward(step_);
  row = {.step = step_};
  observe(pass, row);
}

/// The input of the stopping rules for a step, with the time of its row.
Seen Trainer::seen_in(const loss::Assessment& found, const StepRecord& row) const {
  Seen seen{.step = row.step,
            .batch_loss = found.loss,
            .train_loss = row.train_loss,
            // The guard may still reject this epoch, so it has no best step.
            .val_loss = epochs_ && !starts_epoch() ? kUnknown : row.val_loss,
            // All ranks use one clock.
            .seconds = setup_->options.max_seconds > 0 ? setup_->data.ranks->first(row.seconds)
                                                       : row.seconds};
  if (setup_->batches.all() && setup_->loss->traits().smoothing > 0) seen.misfit = found.misfit;
  return seen;
}

StoppingRules::Verdict Trainer::ask_rules(const Pass& pass, const StepRecord& row) {
  const auto verdict = rules_.check(seen_in(pass.found, row));
  if (verdict.best && setup_->options.patience > 0) copy_parameters(setup_->model, best_);
  return verdict;
}

StepResult Trainer::step() {
  notice_changes();
  const StepResult done = take_step();
  remember_parameters();
  return done;
}

/// Detects changes of the model by the caller since the last call; the run continues from them.
void Trainer::notice_changes() {
  const kernel::AutogradScope scope;
  const Method& method = setup_->options.method;
  if (method->controlled || method->path) setup_->engine->check(setup_->data.x);
  if (!left_.parameters.empty() && !has_parameters(setup_->model, left_.parameters)) {
    last_.clear();
    if (epochs_) epochs_->start_from(step_);
    method_->distrust();
  }
  if (!left_.outputs.defined() || left_.batch != setup_->batches.id(step_)) return;
  next_ = setup_->forward(step_);
  const double tolerance = tol::same_function(setup_->model.dtype());
  const double change = (next_->values - left_.outputs).norm().item<double>();
  if (!(change <= tolerance * left_.outputs.norm().item<double>())) method_->distrust();
}

StepResult Trainer::take_step() {
  const kernel::AutogradScope scope;
  if (!start_) start_ = Clock::now();
  if (over_) history_.pop_back();
  over_ = false;
  if (!last_.empty()) set_parameters(setup_->model, std::exchange(last_, {}));
  Pass pass = next_ && next_->batch == setup_->batches.id(step_) ? std::move(*next_)
                                                                 : setup_->forward(step_);
  next_.reset();
  left_.outputs.reset();
  StepRecord row;
  row.step = step_;
  observe(pass, row);
  look_back(pass, row);
  row.refreshed = std::exchange(pending_.refreshed, 0);
  row.rejected = std::exchange(pending_.rejected, 0);
  row.seconds = seconds();
  auto outcome = ask_rules(pass, row).outcome;
  if (!outcome && epochs_ && epochs_->exhausted()) outcome = Outcome::kStuck;
  if (!outcome) {
    Advance advance = method_->advance(step_, pass, row);
    outcome = advance.end;
    next_ = std::move(advance.next);
  }
  if (outcome || next_) {
    left_.outputs = next_ ? next_->values : pass.values;
    left_.batch = next_ ? next_->batch : pass.batch;
  }
  row.seconds = seconds();
  history_.push_back(row);
  if (outcome) {
    over_ = true;
    pending_ = row;
  } else {
    if (step_ == 0) first_ = method_->certificate({});
    ++step_;
  }
  return {row, outcome};
}

/// Applies the stopping rules to blind steps, which took `each` seconds each.
Trainer::Judged Trainer::judge(const std::vector<BlindRow>& found, double begin, double each) {
  Judged judged;
  std::vector<StepRecord>& rows = judged.rows;
  for (const BlindRow& blind : found) {
    StepRecord row;
    row.step = step_ + static_cast<int64_t>(rows.size());
    row.learning_rate = blind.rate;
    row.train_loss = blind.at.found.loss;
    row.val_loss = blind.val_loss;
    row.augment_norm = blind.augment_norm;
    row.objective = blind.at.objective + method_->penalty();
    row.seconds = begin + each * static_cast<double>(rows.size() + 1);
    StoppingRules rules = rules_;
    const auto verdict = rules.check(seen_in(blind.at.found, row));
    if (verdict.outcome) break;
    rules_ = rules;
    if (verdict.best && setup_->options.patience > 0) {
      judged.best = static_cast<int64_t>(rows.size());
    }
    rows.push_back(row);
  }
  return judged;
}

void Trainer::keep(const std::vector<StepRecord>& rows) {
  for (const StepRecord& row : rows) {
    method_->blind()->took(row.step);
    history_.push_back(row);
  }
  step_ += static_cast<int64_t>(rows.size());
}

/// Takes a stride and returns the number of steps kept by the rules. The end is left to `step`.
int64_t Trainer::stride(const TrainHooks& hooks) {
  const int64_t count = strides_->length(step_);
  if (count == 0) return 0;
  const double begin = seconds();
  const auto found = strides_->take(step_, count);
  const double each = (seconds() - begin) / static_cast<double>(count);
  const auto [rows, best] = judge(found, begin, each);
  const auto taken = static_cast<int64_t>(rows.size());
  if (best) {
    strides_->retake(*best);
    copy_parameters(setup_->model, best_);
    strides_->go_on(taken - *best);
  } else if (taken < count) {
    strides_->retake(taken);
  }
  keep(rows);
  look_ = taken < count;
  if (hooks.on_step) std::ranges::for_each(rows, hooks.on_step);
  return taken;
}

TrainResult Trainer::run(const TrainHooks& hooks) {
  if (!start_) start_ = Clock::now();
  notice_changes();
  double last_checkpoint = seconds();
  const auto save = [&] {
    if (hooks.checkpoint) hooks.checkpoint(checkpoint());
    last_checkpoint = seconds();
  };
  Outcome outcome = Outcome::kInterrupted;
  const bool strides = hooks.rows_may_lag || !hooks.on_step;
  look_ = true;  // the final state of an earlier run may be this one's first
  const auto asked_to_stop = [&] {
    return !setup_->data.ranks->all(!hooks.stop_requested || !hooks.stop_requested());
  };
  while (!asked_to_stop()) {
    if (seconds() - last_checkpoint >= setup_->options.checkpoint_seconds) save();
    if (strides && !look_ && stride(hooks) > 0) continue;
    look_ = false;
    const StepResult done = strides ? take_step() : step();
    if (done.outcome && *done.outcome != Outcome::kDiverged) save();  // diverged runs cannot go on
    if (hooks.on_step) hooks.on_step(done.record);
    if (!done.outcome) continue;
    outcome = *done.outcome;
    break;
  }
  if (outcome == Outcome::kInterrupted) save();
  return finish(outcome);
}

TrainResult Trainer::finish(Outcome outcome) {
  const TrainData& data = setup_->data;
  TrainResult result;
  result.outcome = outcome;
  result.steps = step_;
  result.best_step = rules_.best_step();
  result.best_val_loss = rules_.best_val_loss();
  result.linearizations = method_->linearizations();
  result.rejected = method_->rejected() + (epochs_ ? epochs_->rejected() : 0);
  if (const FormUsed used = method_->form(); !used.form->open) {
    result.form = used.form.name();
    result.form_why = used.why;
  }
  result.learning_rate = method_->learning_rate();
  result.controller = first_;
  result.seconds = seconds();
  result.history = history_;
  const bool ended = outcome != Outcome::kInterrupted;
  const auto end_with = [&](const std::vector<torch::Tensor>& parameters) {
    copy_parameters(setup_->model, last_);
    set_parameters(setup_->model, parameters);
    left_.outputs.reset();
  };
  if (ended) {
    result.train_loss = history_.back().train_loss;
    result.val_loss = history_.back().val_loss;
    result.objective = history_.back().objective;
  }
  if (ended && rules_.prefers_best(step_)) {
    end_with(best_);
    result.best_kept = true;
    result.train_loss = kUnknown;
    result.val_loss = rules_.best_val_loss();
    result.objective = history_[static_cast<size_t>(rules_.best_step())].objective;
  } else if (epochs_ && !epochs_->holds(setup_->whole())) {
    end_with(epochs_->start());
    result.train_loss = epochs_->at_start().loss;
    result.objective = epochs_->at_start().objective;
    result.val_loss = kUnknown;
  }
  if (std::isnan(result.train_loss) || std::isnan(result.objective)) {
    const Whole whole = setup_->whole();
    result.train_loss = whole.loss;
    if (std::isnan(result.objective)) result.objective = whole.objective;
  }
  if (std::isnan(result.val_loss) && data.x_val.defined()) {
    result.val_loss = setup_->loss_of(data.x_val, data.y_val);
  }
  if (over_ && !rules_.prefers_best(step_)) {  // the final row describes the final parameters
    StepRecord& row = result.history.back();
    if (!std::isnan(row.train_loss)) row.train_loss = result.train_loss;
    if (!std::isnan(row.objective)) row.objective = result.objective;
    if (!std::isnan(row.val_loss)) row.val_loss = result.val_loss;
  }
  remember_parameters();
  pause();
  return result;
}

/// Stops the clock until the next step.
void Trainer::pause() {
  earlier_seconds_ = seconds();
  start_.reset();
}

int Trainer::most_threads() const {
  if (!setup_->model.device().is_cpu()) return 0;
  const FormSizes sizes = form_sizes(*setup_);
  // For images, whose layers reuse weights, parameters and widths do not determine the cost.
  const bool dense = setup_->data.x.dim() == 2;
  if (setup_->options.method->gradients) return dense ? most_threads_of_a_gradient(sizes) : 0;
  const Form form = method_->form().form;
  return form->one_kernel && !dense ? 0 : train::most_threads(form, sizes);
}

double Trainer::seconds() const {
  if (!start_) return earlier_seconds_;
  return earlier_seconds_ + std::chrono::duration<double>(Clock::now() - *start_).count();
}

}  // namespace cdt::train
