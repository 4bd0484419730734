#include <cdt/core/machine/streams.h>
#include <cdt/kernel/record/autograd_scope.h>
#include <cdt/train/stride.h>

#include <algorithm>
#include <chrono>

namespace cdt::train {
namespace {

using torch::Tensor;
using Clock = std::chrono::steady_clock;

/// Index of a stream (core/machine/streams.h).
constexpr size_t kRates = 4;

}  // namespace

Strides::Strides(std::shared_ptr<const Setup> setup, StepMethod& method,
                 const StrideOptions& options)
    : setup_(std::move(setup)), method_(method), player_(setup_->model.device(), options) {}

int64_t Strides::length(int64_t step) const {
  if (player_.pace() < 2 || !setup_->batches.all() || !setup_->engine->repeatable()) return 0;
  const BlindSteps* blind = method_.blind();
  if (blind == nullptr) return 0;
  const int64_t count = std::min({player_.pace(), blind->left(step), setup_->options.steps - step});
  return count < 2 ? 0 : count;
}

/// Prepares the sequences, whose tensors keep their addresses until the next linearization.
void Strides::prepare(int64_t step) {
  if (linearizations_ == method_.linearizations()) return;
  linearizations_ = method_.linearizations();
  weights_ = setup_->weights(0);
  player_.prepare([this] { this->step(); }, [this] { validate(); }, /*rates=*/2,
                  std::min(method_.blind()->left(step), setup_->options.steps - step));
}

void Strides::step() {
  const TrainData& data = setup_->data;
  Tensor plan;
  Aside rates(setup_->model.device(), kRates);
  rates.run([&] { plan = player_.rates(); });
  const auto pass = setup_->engine->forward(data.x, kernel::StepUse::kDescent);
  const Tensor outputs = pass->outputs();
  const torch::NoGradGuard no_graph;
  const Tensor values = outputs.reshape(data.y.sizes()).to(torch::kFloat64);
  const Steered heading = method_.blind()->heading(values, data.y);
  const bool shrinks = setup_->options.weight_decay > 0;
  steers_ = heading.augment != nullptr;
  Aside aside(values.device(), kNumbersStream);
  aside.run([&] {
    Tensor numbers = setup_->numbers(values, data.y, weights_);
    if (steers_) numbers = torch::cat({numbers, heading.augment().norm().view({1})});
    player_.put(numbers);
  });
  if (shrinks) aside.join();  // the numbers depend on the parameters, too
  rates.join();
  Tensor seed = torch::empty(outputs.sizes(), outputs.options().requires_grad(false));
  torch::mul_out(seed, heading.seed.view(outputs.sizes()), plan[0]);  // rounds to the output dtype
  pass->move(seed, shrinks ? plan[1] : Tensor());
  aside.join();
}

void Strides::validate() {
  const TrainData& data = setup_->data;
  const torch::NoGradGuard no_graph;
  const Tensor outputs =
      setup_->engine->evaluate(data.x_val).reshape(data.y_val.sizes()).to(torch::kFloat64);
  player_.put_validation(setup_->loss->sums(outputs, data.y_val));
}

std::vector<BlindRow> Strides::take(int64_t step, int64_t count) {
  const kernel::AutogradScope scope;
  const auto begin = Clock::now();
  prepare(step);
  BlindSteps& blind = *method_.blind();
  std::vector<BlindRow> found(static_cast<size_t>(count));
  StridePlayer::Stride stride;
  stride.count = count;
  stride.validates = [&](int64_t i) { return setup_->validates(step + i); };
  stride.begin = [&] { copy_parameters(setup_->model, start_); };
  for (int64_t i = 0; i < count; ++i) {
    const double rate = blind.rate(step + i);
    found[static_cast<size_t>(i)].rate = rate;
    stride.rates.push_back(rate);
    stride.rates.push_back(1 - rate * setup_->options.weight_decay);
  }
  const auto read = player_.play(stride);
  note_moved(setup_->model);
  const TrainData& data = setup_->data;
  for (size_t i = 0; i < found.size(); ++i) {
    BlindRow& row = found[i];
    std::span<const double> numbers = read.steps[i];
    if (steers_) {
      row.augment_norm = numbers.back();
      numbers = numbers.first(numbers.size() - 1);
    }
    row.at = setup_->measured(numbers, data.y);
    if (stride.validates(static_cast<int64_t>(i))) {
      row.val_loss =
          setup_->loss->assessment(read.validations[i], data.y_val.size(0), data.y_val.size(1))
              .loss;
    }
  }
  player_.timed(count, std::chrono::duration<double>(Clock::now() - begin).count());
  return found;
}

void Strides::retake(int64_t count) {
  player_.rewind([&] { set_parameters(setup_->model, start_); });
  go_on(count);
}

void Strides::go_on(int64_t count) {
  const kernel::AutogradScope scope;
  player_.go_on(count);
  note_moved(setup_->model);
}

}  // namespace cdt::train
