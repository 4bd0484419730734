#include <cdt/core/interrupt.h>
#include <cdt/core/machine/threads.h>
#include <cdt/nn/engine.h>
#include <cdt/study/parts/walk.h>
#include <cdt/train/batches.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

namespace cdt::study {

using torch::Tensor;
using train::StepRecord;

void Walk::start(const train::TrainOptions& training, int64_t points) {
  train::TrainOptions wanted = training;
  steps_a_point = train::step_batches(wanted, rows.x.size(0), rows.y.size(1)).per_epoch();
  wanted.steps = points * steps_a_point;
  wanted.patience = 0;
  wanted.stop_loss = 0;
  wanted.max_seconds = 0;
  trainer.emplace(model, rows, wanted, nn::make_engine(model));
  count = static_cast<int64_t>(rows.ranks->sum(static_cast<double>(rows.x.size(0))));
  over = points == 0;
}

StepRecord Walk::advance() {
  StepRecord first;
  for (int64_t step = 0; step < steps_a_point && !over; ++step) {
    const train::StepResult done = trainer->step();
    if (step == 0) {
      first = done.record;
    } else {
      first.refreshed += done.record.refreshed;
      first.rejected += done.record.rejected;
    }
    if (done.outcome) over = true;
  }
  decays.push_back(first.decay);
  return first;
}

Tensor Walk::held_outputs() const {
  return train::evaluate_together(*rows.ranks, x_held, [&](const Tensor& x) {
    return nn::outputs_of(model, x).view({x.size(0), -1}).to(torch::kFloat64);
  });
}

train::TrainData select_rows(const train::TrainData& all, const std::vector<int64_t>& rows) {
  const auto count = static_cast<int64_t>(rows.size());
  const bool range =
      count > 0 && std::ranges::is_sorted(rows) && rows.back() - rows.front() == count - 1;
  const Tensor at = range ? Tensor() : torch::tensor(rows, torch::kInt64);
  const auto some = [&](const Tensor& of) {
    if (!of.defined()) return of;
    return range ? of.narrow(0, rows.front(), count) : of.index_select(0, at.to(of.device()));
  };
  train::TrainData selected;
  selected.x = some(all.x);
  selected.y = some(all.y);
  selected.sample_weights = some(all.sample_weights);
  selected.output_weights = all.output_weights;
  selected.ranks = all.ranks;
  return selected;
}

size_t at_once(const std::vector<Walk>& walks, int cores) {
  const train::TrainData& rows = walks.front().rows;
  const bool alone = rows.x.device().is_cpu() && !rows.ranks->several();
  const auto going = static_cast<size_t>(std::ranges::count(walks, false, &Walk::over));
  const size_t count = going > 0 ? going : walks.size();
  return alone ? std::min(count, static_cast<size_t>(cores)) : 1;
}

void side_by_side(const std::vector<Walk>& walks, int cores,
                  const std::function<void(size_t)>& work) {
  const size_t workers = at_once(walks, cores);
  if (workers <= 1) {
    const ThreadCount all(cores);
    for (size_t w = 0; w < walks.size(); ++w) work(w);
    return;
  }
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> failures(workers);
  std::vector<std::thread> threads;
  const std::function<void()> ask = interruption_question();
  for (size_t t = 0; t < workers; ++t) {
    threads.emplace_back([&, t] {
      at::set_num_threads(std::max(1, cores / static_cast<int>(workers)));
      std::optional<InterruptScope> asking;
      if (ask) asking.emplace(ask);
      try {
        for (size_t w = next++; w < walks.size(); w = next++) work(w);
      } catch (...) {
        failures[t] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

StepRecord advance(std::vector<Walk>& walks, int cores) {
  std::vector<StepRecord> found(walks.size());
  side_by_side(walks, cores, [&](size_t w) { found[w] = walks[w].advance(); });
  StepRecord mean;
  double train_loss = 0, objective = 0, decay = 0, freedom = 0, rows = 0;
  for (size_t w = 0; w < walks.size(); ++w) {
    mean.refreshed += found[w].refreshed;
    mean.rejected += found[w].rejected;
    if (std::isnan(found[w].train_loss)) continue;  // it had already ended
    const auto count = static_cast<double>(walks[w].count);
    train_loss += count * found[w].train_loss;
    objective += count * found[w].objective;
    decay += count * found[w].decay;
    freedom += count * found[w].freedom;
    rows += count;
  }
  mean.train_loss = train_loss / rows;
  mean.objective = objective / rows;
  mean.decay = decay / rows;
  mean.freedom = freedom / rows;
  return mean;
}

}  // namespace cdt::study
