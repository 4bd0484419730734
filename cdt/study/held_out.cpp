#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/study/held_out.h>

#include <algorithm>
#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

constexpr double kHeldOut = 0.2;
constexpr int64_t kFewestSamples = 5;

/// Held-out samples [r]: the first `count` of this order, and those equal to them.
Tensor first_and_equal(const Tensor& x, const Tensor& order, int64_t count) {
  const int64_t r = x.size(0);
  const auto [values, which, sizes] =
      at::unique_dim(x.reshape({r, -1}), 0, /*sorted=*/true, /*return_inverse=*/true,
                     /*return_counts=*/true);
  const auto bools = torch::TensorOptions(torch::kBool).device(x.device());
  Tensor held = torch::zeros({r}, bools);
  if (sizes.numel() == r) return held.index_fill_(0, order.narrow(0, 0, count), 1);
  CDT_REQUIRE(sizes.numel() > 1, "the goal predict holds samples out, and all ", r,
              " are equal; give x_val and y_val");
  // Groups of equal samples in the order of their first members.
  const Tensor place =
      std::get<1>(which.index_select(0, order).sort(/*stable=*/true, /*dim=*/0, false))
          .index_select(0, sizes.cumsum(0) - sizes);
  const Tensor blocks = place.argsort();
  const Tensor ordered = sizes.index_select(0, blocks);
  Tensor chosen = torch::zeros({sizes.numel()}, bools);
  chosen.index_copy_(0, blocks, ordered.cumsum(0) - ordered < count);
  if (chosen.all().item<bool>()) chosen[blocks[-1].item<int64_t>()] = false;
  return chosen.index_select(0, which);
}

}  // namespace

train::TrainData hold_out(const train::TrainData& data, uint64_t seed) {
  const int64_t r = data.x.size(0);
  CDT_REQUIRE(r >= kFewestSamples,
              "the goal predict holds a fifth of the samples out, and there are only ", r,
              "; give x_val and y_val");
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const Tensor order = torch::randperm(r, generator, torch::kInt64).to(data.x.device());
  const auto share = std::lrint(kHeldOut * static_cast<double>(r));
  const Tensor held = first_and_equal(data.x, order, std::max<int64_t>(1, share));
  const Tensor by_order = held.index_select(0, order);
  const Tensor out = order.masked_select(by_order), kept = order.masked_select(~by_order);
  train::TrainData parts = data;
  parts.x = data.x.index_select(0, kept);
  parts.y = data.y.index_select(0, kept);
  parts.x_val = data.x.index_select(0, out);
  parts.y_val = data.y.index_select(0, out);
  if (data.sample_weights.defined()) {
    parts.sample_weights = data.sample_weights.index_select(0, kept);
  }
  return parts;
}

HeldOutTrainer::HeldOutTrainer(kernel::Model model, train::TrainData data,
                               train::TrainOptions options, bool refit)
    : model_(std::move(model)),
      data_(std::move(data)),
      options_(std::move(options)),
      refit_(refit),
      start_(values()),
      first_(model_, hold_out(data_, options_.seed), options_) {}

std::vector<Tensor> HeldOutTrainer::values() const {
  std::vector<Tensor> values;
  for (const Tensor& parameter : model_.parameters()) values.push_back(parameter.detach().clone());
  return values;
}

void HeldOutTrainer::put(const std::vector<Tensor>& values) const {
  const torch::NoGradGuard no_graph;
  for (size_t i = 0; i < values.size(); ++i) Tensor(model_.parameters()[i]).copy_(values[i]);
}

train::TrainResult HeldOutTrainer::run(const train::TrainHooks& selection,
                                       const train::TrainHooks& refit) {
  if (!found_) {
    const train::TrainResult result = first_.run(selection);
    if (!refit_ || result.outcome == train::Outcome::kInterrupted || result.best_step < 1) {
      return result;
    }
    selected_ = values();
    found_ = result;
  }
  if (!second_) {
    put(start_);
    train::TrainOptions options = options_;
    options.steps = found_->best_step;
    options.patience = 0;
    train::TrainData all = data_;
    all.x_val = all.y_val = Tensor();
    second_.emplace(model_, std::move(all), options);
  }
  const train::TrainResult again = second_->run(refit);
  train::TrainResult result = *found_;
  if (again.outcome == train::Outcome::kInterrupted || again.diverged()) {
    put(selected_);
    return result;
  }
  result.train_loss = again.train_loss;
  result.seconds += again.seconds;
  result.linearizations += again.linearizations;
  return result;
}

}  // namespace cdt::study
