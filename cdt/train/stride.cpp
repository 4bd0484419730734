#include <cdt/core/error.h>
#include <cdt/core/numbers.h>
#include <cdt/core/streams.h>
#include <cdt/kernel/autograd_scope.h>
#include <cdt/train/stride.h>

#include <algorithm>
#include <chrono>

namespace cdt::train {
namespace {

using torch::Tensor;
using Clock = std::chrono::steady_clock;

constexpr int64_t kMostSteps = 256;
/// Of the first stride, whose steps nobody has timed.
constexpr int64_t kFirstSteps = 16;
/// Recording takes as long as some dozen steps.
constexpr int64_t kWorthRecording = 16;
/// Steps that are played as one, if they are as short as those of long strides and many are left:
/// recording them takes as long as some hundred steps.
constexpr int64_t kTogether = 8;
constexpr int64_t kLongStride = 128;
constexpr int64_t kWorthTogether = 1024;
/// Of a stride: progress and interruptions wait no longer.
constexpr double kSeconds = 0.05;

/// Of the streams (core/streams.h): numbers for the history are none that a step waits for.
constexpr size_t kNumbers = 2;
constexpr size_t kRates = 4;

/// Writes numbers [k] to the row `now` of `rows`, which is made for them at the first call.
void put_row(Tensor& rows, const Tensor& now, const Tensor& numbers, int64_t capacity) {
  if (!rows.defined()) rows = torch::zeros({capacity, numbers.size(0)}, numbers.options());
  rows.index_copy_(0, now, numbers.unsqueeze(0));
}

/// Rows [count, k] on the host.
std::vector<std::vector<double>> read_rows(const Tensor& rows, int64_t count) {
  std::vector<std::vector<double>> found;
  if (!rows.defined()) return found;
  const std::vector<double> flat = to_vector(rows.narrow(0, 0, count));
  const int64_t width = rows.size(1);
  for (int64_t i = 0; i < count; ++i) {
    const auto first = flat.begin() + i * width;
    found.emplace_back(first, first + width);
  }
  return found;
}

}  // namespace

Strides::Strides(std::shared_ptr<const Setup> setup, StepMethod& method,
                 const StrideOptions& options)
    : setup_(std::move(setup)), method_(method), options_(options) {
  CDT_REQUIRE(options.most >= 0, "a stride must have steps, not ", options.most);
  const bool gpu = setup_->model.device().is_cuda();
  pace_ = options.most > 0 ? options.most : gpu ? kFirstSteps : 1;
}

int64_t Strides::length(int64_t step) const {
  if (pace_ < 2 || !setup_->batches.all() || !setup_->engine->repeatable()) return 0;
  const BlindSteps* blind = method_.blind();
  if (blind == nullptr) return 0;
  const int64_t count = std::min({pace_, blind->left(step), setup_->options.steps - step});
  return count < 2 ? 0 : count;
}

/// What the sequences use is where it was, until there is another linearization.
void Strides::prepare(int64_t step) {
  if (linearizations_ == method_.linearizations()) return;
  linearizations_ = method_.linearizations();
  playback_.reset();
  const int64_t capacity = std::max(options_.most, kMostSteps);
  const auto numbers = torch::TensorOptions().dtype(torch::kFloat64).device(setup_->model.device());
  weights_ = setup_->weights(0);
  plan_ = torch::zeros({capacity, 2}, numbers);
  now_ = torch::zeros({1}, numbers.dtype(torch::kInt64));
  rows_ = validation_ = Tensor();
  rehearsed_ = false;
  const int64_t left = method_.blind()->left(step);
  together_ = std::min(left, setup_->options.steps - step) >= kWorthTogether ? kTogether : 1;
  playback_ =
      kernel::make_playback({[this] { this->step(); }, [this] { validate(); }},
                            setup_->model.device(), options_.record && left >= kWorthRecording);
}

void Strides::step() {
  const TrainData& data = setup_->data;
  Tensor plan;
  Aside rates(setup_->model.device(), kRates);
  rates.run([&] { plan = plan_.index_select(0, now_).view({2}); });
  const auto pass = setup_->engine->forward(data.x, kernel::StepUse::kDescent);
  const Tensor outputs = pass->outputs();
  const torch::NoGradGuard no_graph;
  const Tensor values = outputs.reshape(data.y.sizes()).to(torch::kFloat64);
  const Steered heading = method_.blind()->heading(values, data.y);
  const bool shrinks = setup_->options.weight_decay > 0;
  steers_ = heading.augment != nullptr;
  Aside aside(values.device(), kNumbers);
  aside.run([&] {
    Tensor numbers = setup_->numbers(values, data.y, weights_);
    if (steers_) numbers = torch::cat({numbers, heading.augment().norm().view({1})});
    put_row(rows_, now_, numbers, plan_.size(0));
    now_.add_(1);
  });
  if (shrinks) aside.join();  // the numbers are of the parameters, too
  rates.join();
  Tensor seed = torch::empty(outputs.sizes(), outputs.options().requires_grad(false));
  torch::mul_out(seed, heading.seed.view(outputs.sizes()), plan[0]);  // rounds on its way
  pass->move(seed, shrinks ? plan[1] : Tensor());
  aside.join();
}

/// Steps from one on that are played as one: no validation comes between them.
int64_t Strides::unbroken(int64_t step, int64_t end) const {
  if (step + together_ > end) return 1;
  for (int64_t k = 1; k < together_; ++k) {
    if (setup_->validates(step + k)) return 1;
  }
  return together_;
}

void Strides::validate() {
  const TrainData& data = setup_->data;
  const torch::NoGradGuard no_graph;
  const Tensor outputs =
      setup_->engine->evaluate(data.x_val).reshape(data.y_val.sizes()).to(torch::kFloat64);
  put_row(validation_, now_, setup_->objective.sums(outputs, data.y_val), plan_.size(0));
}

std::vector<BlindRow> Strides::take(int64_t step, int64_t count) {
  const kernel::AutogradScope scope;
  const auto begin = Clock::now();
  prepare(step);
  BlindSteps& blind = *method_.blind();
  std::vector<BlindRow> found(static_cast<size_t>(count));
  std::vector<double> plan;
  for (int64_t i = 0; i < count; ++i) {
    const double rate = blind.rate(step + i);
    found[static_cast<size_t>(i)].rate = rate;
    plan.push_back(rate);
    plan.push_back(1 - rate * setup_->options.weight_decay);
  }
  std::vector<std::vector<double>> rows, validation;
  playback_->within([&] {
    copy_parameters(setup_->model, start_);
    plan_.narrow(0, 0, count).copy_(torch::tensor(plan, torch::kFloat64).view({count, 2}));
    now_.zero_();
    for (int64_t i = 0; i < count;) {
      if (setup_->validates(step + i)) playback_->play(kValidate);
      const int64_t steps = count < kLongStride ? 1 : unbroken(step + i, step + count);
      playback_->play(kStep, steps);
      i += steps;
    }
    rows = read_rows(rows_, count);
    validation = read_rows(validation_, count);
  });
  note_moved(setup_->model);
  const TrainData& data = setup_->data;
  for (size_t i = 0; i < found.size(); ++i) {
    BlindRow& row = found[i];
    std::span<const double> numbers = rows[i];
    if (steers_) {
      row.augment_norm = numbers.back();
      numbers = numbers.first(numbers.size() - 1);
    }
    row.at = setup_->measured(numbers, data.y);
    if (setup_->validates(step + static_cast<int64_t>(i))) {
      row.val_loss =
          setup_->objective.assessment(validation[i], data.y_val.size(0), data.y_val.size(1)).loss;
    }
  }
  pace(count, std::chrono::duration<double>(Clock::now() - begin).count());
  return found;
}

void Strides::retake(int64_t count) {
  playback_->within([&] {
    set_parameters(setup_->model, start_);
    now_.zero_();
  });
  go_on(count);
}

void Strides::go_on(int64_t count) {
  const kernel::AutogradScope scope;
  playback_->within([&] {
    for (int64_t i = 0; i < count; ++i) playback_->play(kStep);
  });
  note_moved(setup_->model);
}

void Strides::pace(int64_t count, double seconds) {
  if (options_.most > 0 || !std::exchange(rehearsed_, true)) return;
  const double wanted = kSeconds * static_cast<double>(count) / std::max(seconds, 1e-9);
  pace_ = std::clamp(static_cast<int64_t>(wanted), int64_t{2}, kMostSteps);
}

}  // namespace cdt::train
