#include <cdt/core/error.h>
#include <cdt/core/machine/streams.h>
#include <cdt/kernel/record/autograd_scope.h>
#include <cdt/train/together.h>

#include <algorithm>
#include <chrono>

namespace cdt::train {
namespace {

using torch::Tensor;
using Clock = std::chrono::steady_clock;

/// Stride length on the host, where reading is free: a stride in which a run ends is taken twice.
constexpr int64_t kStepsOnHost = 4;

StrideOptions with_steps(StrideOptions options, torch::Device device) {
  if (options.most == 0 && !device.is_cuda()) options.most = kStepsOnHost;
  return options;
}

bool same_shape(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() &&
         (!a.defined() || (a.sizes() == b.sizes() && a.options().type_equal(b.options()) &&
                           a.device() == b.device()));
}

/// Whether the steps of a run are the same products whatever the numbers.
bool is_plain(const Setup& setup) {
  const TrainOptions& options = setup.options;
  const auto policy = options.relinearize.value_or(Relinearization{}).kind;
  return options.loss->quadratic() && setup.batches.all() && !options.controller &&
         policy == Relinearization::Kind::kNever && !options.linearization_error &&
         options.patience == 0 && options.weight_decay == 0 && !setup.weights(0).defined() &&
         !setup.data.ranks->several();
}

bool alike(const Setup& a, const Setup& b) {
  const auto& left = a.model.parameters();
  const auto& right = b.model.parameters();
  return std::ranges::equal(left, right, same_shape) && same_shape(a.data.x, b.data.x) &&
         same_shape(a.data.y, b.data.y) && same_shape(a.data.x_val, b.data.x_val) &&
         same_shape(a.data.y_val, b.data.y_val) && a.options.loss == b.options.loss &&
         a.options.steps == b.options.steps &&
         a.options.validate_every == b.options.validate_every &&
         a.options.method->controlled == b.options.method->controlled;
}

/// Sums of squares [K] of e [K, n].
Tensor squares(const Tensor& error) { return error.square().sum(1); }

}  // namespace

bool Together::takes(const std::vector<Trainer*>& runs) {
  return !runs.empty() && std::ranges::all_of(runs, [&](const Trainer* run) {
    return run->method_->blind() != nullptr && run->history_.empty() && is_plain(*run->setup_) &&
           alike(*runs.front()->setup_, *run->setup_);
  });
}

Together::Together(std::vector<Trainer*> runs, kernel::Stack stack, const StrideOptions& options)
    : runs_(std::move(runs)),
      stack_(std::move(stack)),
      player_(stack_.parameters.at(0).device(),
              with_steps(options, stack_.parameters.at(0).device())),
      over_(runs_.size(), false) {
  CDT_REQUIRE(takes(runs_),
              "runs that are trained together must be of one shape, not started, by "
              "gd, gd-matched or cdt with one linearization");
  const auto& parameters = setup(0).model.parameters();
  const bool fits =
      std::ranges::equal(stack_.parameters, parameters, [&](const Tensor& all, const Tensor& one) {
        return all.size(0) == static_cast<int64_t>(runs_.size()) && same_shape(all[0], one);
      });
  CDT_REQUIRE(fits, "the stack must be of the models of the runs, ", runs_.size(), " of them");
}

/// Takes the first step of each run, which designs its controller; returns whether the remaining
/// steps can be taken together.
bool Together::begin(const std::function<bool()>& stop_requested) {
  for (size_t k = 0; k < runs_.size(); ++k) {
    if (stop_requested && stop_requested()) return false;
    over_[k] = runs_[k]->take_step().outcome.has_value();
    runs_[k]->pause();
  }
  return std::ranges::all_of(runs_, [&](Trainer* run) {
    BlindSteps& blind = *run->method_->blind();
    return run->over_ ||
           (blind.left(step_) >= run->setup_->options.steps - step_ && blind.linear());
  });
}

void Together::gather() {
  const torch::NoGradGuard no_graph;
  std::vector<Tensor> x, y, x_val, y_val, matrices;
  for (size_t k = 0; k < runs_.size(); ++k) {
    const TrainData& data = setup(k).data;
    x.push_back(data.x);
    y.push_back(data.y.reshape({-1}));
    if (data.x_val.defined()) {
      x_val.push_back(data.x_val);
      y_val.push_back(data.y_val.reshape({-1}));
    }
    if (setup(k).options.method->controlled) {
      const int64_t n = data.y.numel();
      matrices.push_back(over_[k] ? torch::zeros({n, n}, data.y.options())
                                  : runs_[k]->method_->blind()->linear()->matrix);
    }
    for (size_t i = 0; i < stack_.parameters.size(); ++i) {
      stack_.parameters[i][static_cast<int64_t>(k)].copy_(setup(k).model.parameters()[i]);
    }
  }
  x_ = torch::stack(x);
  y_ = torch::stack(y);
  if (!x_val.empty()) x_val_ = torch::stack(x_val), y_val_ = torch::stack(y_val);
  if (!matrices.empty()) matrix_ = torch::stack(matrices);
  for (const Tensor& each : stack_.parameters) start_.push_back(torch::empty_like(each));
  player_.prepare([this] { step(); }, [this] { validate(); }, static_cast<int64_t>(runs_.size()),
                  setup(0).options.steps - step_);
}

/// θ ← θ − αJᵀM(ŷ − y) for each run; its numbers are ‖ŷ − y‖² and, if labels are steered, ‖y_u‖.
void Together::step() {
  const torch::NoGradGuard no_graph;
  const Tensor rates = player_.rates();
  const auto pass = stack_.engine->forward(x_, kernel::StepUse::kDescent);
  const Tensor outputs = pass->outputs();
  const Tensor error = outputs.reshape(y_.sizes()).to(torch::kFloat64) - y_;
  const TrainData& data = setup(0).data;
  const double c = setup(0).loss->scale(data.y.size(0), data.y.size(1));
  const Tensor seed =
      matrix_.defined() ? torch::bmm(matrix_, error.unsqueeze(2)).squeeze(2) : error * c;
  Aside aside(error.device(), kNumbersStream);
  aside.run([&] {
    Tensor numbers = squares(error);
    if (matrix_.defined()) numbers = torch::cat({numbers, squares(seed / c - error).sqrt()});
    player_.put(numbers);
  });
  pass->move((seed * rates.unsqueeze(1)).reshape(outputs.sizes()), {});
  aside.join();
}

void Together::validate() {
  const torch::NoGradGuard no_graph;
  const Tensor outputs = stack_.engine->evaluate(x_val_);
  player_.put_validation(squares(outputs.reshape(y_val_.sizes()).to(torch::kFloat64) - y_val_));
}

void Together::hand_back(size_t k) {
  std::vector<Tensor> own;
  for (const Tensor& each : stack_.parameters) own.push_back(each[static_cast<int64_t>(k)]);
  set_parameters(setup(k).model, own);
}

/// Takes a stride of all runs and passes each run its results. Runs that end within the stride get
/// the parameters of that step.
void Together::stride() {
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const auto copy = [](const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
    for (size_t i = 0; i < from.size(); ++i) Tensor(to[i]).copy_(from[i]);
  };
  StridePlayer::Stride stride;
  stride.count = std::min(player_.pace(), setup(0).options.steps - step_);
  stride.validates = [&](int64_t i) { return setup(0).validates(step_ + i); };
  stride.begin = [&] { copy(stack_.parameters, start_); };
  for (int64_t i = 0; i < stride.count; ++i) {
    for (size_t k = 0; k < runs_.size(); ++k) {
      stride.rates.push_back(over_[k] ? 0 : runs_[k]->method_->blind()->rate(step_ + i));
    }
  }
  const auto read = player_.play(stride);
  player_.timed(stride.count, seconds());

  const auto taking_part = std::ranges::count(over_, false);
  const double each = seconds() / static_cast<double>(taking_part * stride.count);
  std::vector<size_t> part;
  std::vector<std::pair<int64_t, size_t>> ends;  // number of steps, run
  for (size_t k = 0; k < runs_.size(); ++k) {
    if (over_[k]) continue;
    part.push_back(k);
    Trainer& run = *runs_[k];
    std::vector<BlindRow> found(static_cast<size_t>(stride.count));
    for (size_t i = 0; i < found.size(); ++i) {
      const TrainData& data = setup(k).data;
      found[i].rate = stride.rates[i * runs_.size() + k];
      found[i].at = setup(k).measured({&read.steps[i][k], 1}, data.y);
      if (matrix_.defined()) found[i].augment_norm = read.steps[i][runs_.size() + k];
      if (!stride.validates(static_cast<int64_t>(i))) continue;
      found[i].val_loss =
          setup(k)
              .loss
              ->assessment({&read.validations[i][k], 1}, data.y_val.size(0), data.y_val.size(1))
              .loss;
    }
    const auto rows = run.judge(found, run.seconds(), each).rows;
    run.keep(rows);
    const auto taken = static_cast<int64_t>(rows.size());
    if (taken < stride.count) ends.emplace_back(taken, k);
  }
  if (!ends.empty()) {
    std::ranges::sort(ends);
    player_.rewind([&] { copy(start_, stack_.parameters); });
    int64_t at = 0;
    for (const auto& [taken, k] : ends) {
      player_.go_on(taken - std::exchange(at, taken));
      hand_back(k);
      over_[k] = true;
    }
    player_.go_on(stride.count - at);
  }
  step_ += stride.count;
  for (const size_t k : part) {
    runs_[k]->earlier_seconds_ += seconds() / static_cast<double>(part.size());
  }
}

std::vector<TrainResult> Together::run(const std::function<bool()>& stop_requested) {
  const auto stop = [&] { return stop_requested && stop_requested(); };
  if (begin(stop_requested)) {
    gather();
    while (step_ < setup(0).options.steps && std::ranges::count(over_, false) > 0 && !stop()) {
      stride();
    }
    for (size_t k = 0; k < runs_.size(); ++k) {
      if (!over_[k]) hand_back(k);
    }
  }
  TrainHooks hooks;
  hooks.stop_requested = stop_requested;
  std::vector<TrainResult> results;
  for (Trainer* run : runs_) results.push_back(run->run(hooks));  // each run ends by itself
  return results;
}

}  // namespace cdt::train
