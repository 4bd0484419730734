#include <cdt/core/error.h>
#include <cdt/core/machine/threads.h>
#include <cdt/study/estimate.h>
#include <cdt/study/intervals.h>
#include <cdt/study/parts/learn_state.h>
#include <cdt/study/parts/plan.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace cdt::study {
namespace {

using torch::Tensor;
using train::StepRecord;

/// Share of the time limit: the refit takes about as long as the selection.
constexpr double kSelectionTime = 0.45;
/// Networks of an activation worsen the average if their held-out loss exceeds this multiple of the
/// best one's, by this many standard errors.
constexpr double kMuchWorse = 1.25;
constexpr double kSureErrors = 2;
/// Larger kernels are not factorised for intervals.
constexpr int64_t kMostResiduals = 5000;

/// Seeds of members are far apart.
uint64_t seed_of(uint64_t seed, size_t member) {
  return seed + 0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(member);
}

/// A copy that later steps do not modify.
SafeTensors copy_of(SafeTensors content) {
  for (auto& [name, tensor] : content.tensors) tensor = tensor.clone();
  return content;
}

int64_t count_of_blocks(const std::vector<int64_t>& blocks) {
  return 1 + *std::max_element(blocks.begin(), blocks.end());
}

/// Concatenates rows; without a copy if the second tensor follows the first in memory.
Tensor joined(const Tensor& first, const Tensor& second) {
  const bool follows = first.is_contiguous() && second.is_contiguous() &&
                       first.scalar_type() == second.scalar_type() && first.is_alias_of(second) &&
                       second.storage_offset() == first.storage_offset() + first.numel();
  if (!follows) return torch::cat({first, second});
  std::vector<int64_t> shape = first.sizes().vec();
  shape[0] += second.size(0);
  return first.as_strided(shape, first.strides());
}

}  // namespace

train::TrainData all_rows(const Problem& problem) {
  const train::TrainData& data = problem.data;
  if (!data.x_val.defined()) return data;
  train::TrainData all;
  all.x = joined(data.x, data.x_val);
  all.y = joined(data.y, data.y_val);
  all.output_weights = data.output_weights;
  all.ranks = data.ranks;
  if (data.sample_weights.defined()) {
    all.sample_weights = torch::cat({data.sample_weights, data.val_weights});
  }
  return all;
}

Learner::State::State(const Problem& problem_, LearnOptions options_)
    : problem(problem_),
      options(std::move(options_)),
      data(all_rows(problem)),
      loss(options.training.loss),
      best(kinds()) {
  check();
  start_selection();
}

void Learner::State::check() const {
  const int64_t r = data.x.size(0);
  CDT_REQUIRE(options.members >= 1 && options.members <= kMostMembers, "an ensemble has 1 to ",
              kMostMembers, " members, got ", options.members);
  CDT_REQUIRE(options.folds >= 0 && options.folds != 1 && options.folds <= kMostMembers,
              "folds must be 2 to ", kMostMembers, ", got ", options.folds);
  CDT_REQUIRE(options.training.steps >= 0, "points must be 0 or more, got ",
              options.training.steps);
  CDT_REQUIRE(folds() == 0 || r >= 2, "there must be two rows to hold one out, got ", r);
  CDT_REQUIRE(folds() != 1, "there must be two different rows, or groups of them, to hold one out");
  CDT_REQUIRE(folds() > 0 || problem.data.x_val.defined(),
              "no row was left to validate with: a train fraction below 1, or folds, choose when "
              "to stop");
}

int64_t Learner::State::folds() const {
  if (problem.fixed_split) return 0;
  int64_t wanted = options.folds;
  if (wanted == 0 && options.members > 1) wanted = std::max(options.members, kLeastFolds);
  const auto& groups = problem.groups;
  return std::min(wanted, groups.empty() ? data.x.size(0) : count_of_blocks(groups));
}

std::vector<std::vector<int64_t>> Learner::State::held_rows() const {
  const int64_t r = data.x.size(0);
  const int64_t parts = folds();
  if (parts == 0) {  // the problem's own split, the same for all
    std::vector<int64_t> last(static_cast<size_t>(r - problem.data.x.size(0)));
    std::iota(last.begin(), last.end(), problem.data.x.size(0));
    const size_t least = options.points > 0 ? kinds() : 1;  // each activation is tried
    return std::vector(std::max(least, static_cast<size_t>(options.members)), last);
  }
  // Keeps blocks together: rows, or groups of them.
  std::vector<int64_t> block = problem.groups;
  if (block.empty()) {
    block.resize(static_cast<size_t>(r));
    std::iota(block.begin(), block.end(), int64_t{0});
  }
  const int64_t blocks = count_of_blocks(block);
  const auto order = data::sample_rows(blocks, blocks, options.training.seed);
  std::vector<int64_t> fold(static_cast<size_t>(blocks));
  for (size_t i = 0; i < order.size(); ++i) {
    fold[static_cast<size_t>(order[i])] = static_cast<int64_t>(i) % parts;
  }
  const int64_t count = options.folds > 0 ? std::max(options.members, parts) : options.members;
  std::vector<std::vector<int64_t>> held(static_cast<size_t>(count));
  for (int64_t w = 0; w < count; ++w) {
    for (int64_t row = 0; row < r; ++row) {
      const auto of = static_cast<size_t>(block[static_cast<size_t>(row)]);
      if (fold[of] == w % parts) held[static_cast<size_t>(w)].push_back(row);
    }
  }
  return held;
}

nn::Activation Learner::State::activation(size_t kind) const {
  return options.activations.empty() ? options.network.activation : options.activations[kind];
}

nn::Network Learner::State::network(size_t member, size_t kind) const {
  nn::NetworkOptions layers = options.network;
  layers.activation = activation(kind);
  layers.input_shape = data.x.sizes().slice(1).vec();
  layers.outputs = data.y.size(1);
  nn::Network made =
      nn::make_network(layers, seed_of(options.training.seed, member), options.network.dtype);
  made->to(data.x.device());
  return made;
}

std::vector<int64_t> Learner::State::own_rows(const std::vector<int64_t>& rows) const {
  const train::Share own = train::training_share(*data.ranks, static_cast<int64_t>(rows.size()));
  return {rows.begin() + own.first, rows.begin() + own.first + own.count};
}

void Learner::State::start_selection() {
  const auto held = held_rows();
  const int64_t r = data.x.size(0);
  for (size_t w = 0; w < held.size(); ++w) {
    std::vector<bool> out(static_cast<size_t>(r));
    for (const int64_t row : held[w]) out[static_cast<size_t>(row)] = true;
    std::vector<int64_t> seen;
    for (int64_t row = 0; row < r; ++row) {
      if (!out[static_cast<size_t>(row)]) seen.push_back(row);
    }
    Walk walk;
    walk.kind = w % kinds();
    walk.model = network(w, walk.kind);
    walk.rows = select_rows(data, own_rows(seen));
    walk.held = held[w];
    const train::TrainData rest = select_rows(data, held[w]);
    walk.x_held = rest.x;
    walk.y_held = rest.y.to(torch::kFloat64);
    walk.held_weights = rest.sample_weights;
    walk.start(options.training, options.training.steps);
    walks.push_back(std::move(walk));
  }
  kept.resize(walks.size());
}

double Learner::State::loss_of(const Tensor& outputs, const Tensor& labels,
                               const Tensor& row_weights) const {
  if (!row_weights.defined()) return loss::assess(*loss, outputs, labels).loss;
  const Tensor weights = (row_weights / row_weights.mean()).to(labels.device());
  const Tensor each = weights.unsqueeze(1).expand_as(labels).reshape({-1});
  return loss::assess(*loss, outputs, labels, each).objective;
}

void Learner::State::look(StepRecord& row) {
  const auto had_ended = [&](size_t kind) { return patience_ended(kind, point - 1); };
  std::vector<Tensor> outputs(walks.size());
  std::vector<double> losses(walks.size());
  side_by_side(walks, cores, [&](size_t w) {
    const size_t kind = walks[w].kind;
    if (had_ended(kind)) {
      losses[w] = best[kind].loss;
      return;
    }
    outputs[w] = walks[w].held_outputs();
    losses[w] = loss_of(outputs[w], walks[w].y_held, walks[w].held_weights);
  });
  std::vector<double> sum(kinds()), rows(kinds());
  for (size_t w = 0; w < walks.size(); ++w) {
    const Walk& walk = walks[w];
    const double count = walk.held_weights.defined() ? walk.held_weights.sum().item<double>()
                                                     : static_cast<double>(walk.held.size());
    sum[walk.kind] += count * losses[w];
    rows[walk.kind] += count;
  }
  const double least_gain = options.training.method->path ? kLeastGain : 0;
  for (size_t k = 0; k < kinds(); ++k) {
    const double loss = sum[k] / rows[k];  // NaN if there are fewer fold networks than kinds
    if (had_ended(k)) continue;
    if (std::isnan(loss) || (best[k].point >= 0 && loss >= best[k].loss)) continue;
    best[k].point = point;
    best[k].loss = loss;
    if (best[k].gain_point < 0 || loss < (1 - least_gain) * best[k].gain_loss) {
      best[k].gain_point = point;
      best[k].gain_loss = loss;
    }
    for (size_t w = 0; w < walks.size(); ++w) {
      if (walks[w].kind != k) continue;
      kept[w] = {outputs[w].cpu(), {}};
      for (const Tensor& p : walks[w].model->parameters()) {
        kept[w].parameters.push_back(p.detach().clone());
      }
    }
  }
  for (Walk& walk : walks) walk.over = walk.over || patience_ended(walk.kind, point);
  row.val_loss =
      std::accumulate(sum.begin(), sum.end(), 0.0) / std::accumulate(rows.begin(), rows.end(), 0.0);
  last_loss = row.val_loss;
}

bool Learner::State::patience_ended(size_t kind, int64_t at) const {
  const int64_t patience = options.training.patience;
  return patience > 0 && best[kind].point >= 0 && at - best[kind].gain_point >= patience;
}

bool Learner::State::patience_ended() const {
  for (size_t k = 0; k < kinds(); ++k) {  // there may be fewer fold networks than kinds
    if (best[k].point >= 0 && !patience_ended(k, point)) return false;
  }
  return options.training.patience > 0;
}

bool Learner::State::all_over() const {
  return std::all_of(walks.begin(), walks.end(), [](const Walk& walk) { return walk.over; });
}

bool Learner::State::selection_ended() const {
  return all_over() || point >= options.training.steps || !std::isfinite(last_loss) ||
         patience_ended() ||
         (options.training.max_seconds > 0 &&
          // All ranks follow one clock.
          data.ranks->first(seconds()) >= kSelectionTime * options.training.max_seconds);
}

Tensor Learner::State::spread(const std::vector<Tensor>& values) const {
  const Tensor total = torch::zeros({data.x.size(0), data.y.size(1)}, torch::kFloat64);
  const Tensor count = torch::zeros({data.x.size(0), 1}, torch::kFloat64);
  for (size_t w = 0; w < values.size(); ++w) {
    const Tensor at = torch::tensor(walks[w].held, torch::kInt64);
    total.index_add_(0, at, values[w]);
    count.index_add_(0, at, torch::ones({at.size(0), 1}, torch::kFloat64));
  }
  return total / count;
}

void Learner::State::end_selection() {
  if (!std::isfinite(last_loss) && best[0].point < 0) {
    throw NumericalError(
        "learning diverged before its first point: a feature or a target is far "
        "out of range");
  }
  predicting = kinds_that_predict();
  leave_out_others();
  std::vector<Tensor> outputs;
  {
    const torch::NoGradGuard no_graph;
    for (size_t w = 0; w < walks.size(); ++w) {
      outputs.push_back(kept[w].outputs);
      const auto own = walks[w].model->parameters();
      for (size_t i = 0; i < own.size(); ++i) own[i].copy_(kept[w].parameters[i]);
      chosen.push_back(walks[w].model);
    }
  }
  held_out = spread(outputs);
  if (options.intervals && data.y.numel() <= kMostResiduals) find_variances();
}

std::vector<size_t> Learner::State::kinds_that_predict() const {
  std::vector<std::vector<Tensor>> losses(kinds());
  std::vector<std::vector<int64_t>> different(kinds());
  for (size_t w = 0; w < walks.size(); ++w) {
    const Walk& walk = walks[w];
    if (!kept[w].outputs.defined()) continue;  // its loss was never finite
    Tensor each = loss->values(kept[w].outputs, walk.y_held.cpu());
    if (walk.held_weights.defined()) each = each * walk.held_weights.cpu();
    losses[walk.kind].push_back(each);
    for (const int64_t row : walk.held) {
      if (problem.different.empty()) break;
      different[walk.kind].push_back(problem.different[static_cast<size_t>(row)]);
    }
  }
  std::vector<std::pair<size_t, Estimate>> found;
  for (size_t k = 0; k < kinds(); ++k) {
    if (losses[k].empty()) continue;  // fewer fold networks than kinds
    const Tensor all = torch::cat(losses[k]);
    const auto count = static_cast<double>(count_different(different[k], all.numel()));
    found.emplace_back(
        k, Estimate{all.mean().item<double>(), std::sqrt(all.var().item<double>() / count)});
  }
  const Estimate least = std::ranges::min_element(found, {}, [](const auto& each) {
                           return each.second.value;
                         })->second;
  std::vector<size_t> good;
  for (const auto& [kind, mean] : found) {
    const double beyond = mean.value - kMuchWorse * least.value;
    const double error = std::hypot(mean.error, kMuchWorse * least.error);
    if (!(beyond > kSureErrors * error)) good.push_back(kind);  // NaN for a single row
  }
  return good;
}

void Learner::State::leave_out_others() {
  std::vector<Kept> still;
  for (size_t w = 0; w < walks.size(); ++w) {
    if (std::ranges::count(predicting, walks[w].kind) > 0) still.push_back(kept[w]);
  }
  kept = std::move(still);
  std::erase_if(walks,
                [&](const Walk& walk) { return std::ranges::count(predicting, walk.kind) == 0; });
}

void Learner::State::find_variances() {
  std::vector<double> decays;
  for (const Walk& walk : walks) {
    // A point results from the step before it; before the first step, uses the next decay.
    const auto step = static_cast<size_t>(std::max<int64_t>(best[walk.kind].point - 1, 0));
    if (step >= walk.decays.size() || !(walk.decays[step] > 0)) return;
    decays.push_back(walk.decays[step]);
  }
  std::vector<Tensor> variances(walks.size());
  side_by_side(walks, cores, [&](size_t w) {
    const Walk& walk = walks[w];
    const Tensor x = walk.rows.ranks->gather(walk.rows.x);
    variances[w] = relative_variance(walk.model, x, decays[w], walk.x_held);
  });
  held_variance = spread(variances);
}

double Learner::State::points_left() const {
  PlanSizes sizes = plan_sizes(problem, options.training);
  const auto operations = [&](int64_t rows) {
    sizes.form.samples = rows;
    return point_operations(options.training.form, sizes, options.training);
  };
  const int64_t r = data.x.size(0);
  const double unit = operations(r);
  const auto held = held_rows();
  double left = options.points;
  for (size_t w = 0; w < held.size(); ++w) {
    int64_t points = history.back().step;
    if (const int64_t patience = options.training.patience; patience > 0) {
      points = std::min(points, best[w % kinds()].gain_point + patience);
    }
    left -= static_cast<double>(points) * operations(r - std::ssize(held[w])) / unit;
  }
  return left;
}

int64_t Learner::State::members_to_train() const {
  // A time limit is the user's own plan.
  if (options.points <= 0 || options.training.max_seconds > 0) return options.members;
  const double left = std::max(1.0, points_left());
  int64_t members = 0;
  double nearest = std::numeric_limits<double>::infinity();
  double points = 0;
  for (int64_t m = 1; m <= kMostFilled; ++m) {
    const size_t kind = predicting[static_cast<size_t>(m - 1) % predicting.size()];
    points += static_cast<double>(std::max<int64_t>(1, best[kind].point));
    const double distance = std::abs(std::log(points / left));
    if (distance >= nearest) break;
    members = m;
    nearest = distance;
  }
  return members;
}

void Learner::State::start_refit() {
  stage = LearnStage::kRefit;
  const auto members = static_cast<size_t>(members_to_train());
  walks.clear();
  for (size_t m = 0; m < members; ++m) {
    Walk walk;
    walk.kind = predicting[m % predicting.size()];
    walk.model = network(m, walk.kind);
    walk.rows = train::own_rows(data);
    walk.start(options.training, best[walk.kind].point);
    walks.push_back(std::move(walk));
  }
  point = 0;
}

int64_t Learner::State::last_point() const {
  int64_t last = 0;
  for (const size_t kind : predicting) last = std::max(last, best[kind].point);
  return last;
}

double Learner::State::seconds() const {
  const auto now = std::chrono::steady_clock::now();
  return earlier_seconds + std::chrono::duration<double>(now - started).count();
}

Learned Learner::State::result() const {
  Learned learned;
  learned.loss = loss;
  train::TrainResult& found = learned.result;
  found.outcome = patience_ended() || stage == LearnStage::kRefit ? train::Outcome::kEarlyStopping
                                                                  : train::Outcome::kSteps;
  if (history.back().step >= options.training.steps) found.outcome = train::Outcome::kSteps;
  const Walk& first = walks.front();
  found.steps = found.best_step = best[first.kind].point;
  found.val_loss = history[static_cast<size_t>(found.best_step)].val_loss;
  found.best_val_loss = found.val_loss;
  for (size_t k = 0; k < kinds(); ++k) {
    if (best[k].point < 0) continue;  // fewer fold networks than activations
    const bool predicts = std::ranges::count(predicting, k) > 0;
    auto& list = predicts ? learned.picked : learned.left_out;
    list.push_back({activation(k), best[k].point, best[k].loss});
  }
  found.history = history;
  for (const auto* rows : {&history, &refit_history}) {
    for (const StepRecord& row : *rows) {
      found.linearizations += row.refreshed;
      found.rejected += row.rejected;
    }
  }
  found.controller = first.trainer->controller();
  if (const train::FormUsed used = first.trainer->form(); !used.form->open) {
    found.form = used.form.name();
    found.form_why = used.why;
  }
  if (stage == LearnStage::kRefit) {
    for (const Walk& walk : walks) learned.networks.push_back(walk.model);
  }
  const auto last = static_cast<size_t>(std::max<int64_t>(found.best_step - 1, 0));
  if (last < first.decays.size()) learned.decay = first.decays[last];
  learned.networks.insert(learned.networks.end(), chosen.begin(), chosen.end());
  Tensor mean;
  for (const nn::Network& network : learned.networks) {
    const Tensor outputs =
        train::evaluate_together(*data.ranks, data.x,
                                 [&](const Tensor& x) { return nn::outputs_of(network, x); })
            .view(data.y.sizes())
            .to(torch::kFloat64);
    mean = mean.defined() ? mean + outputs : outputs;
  }
  mean = mean / static_cast<double>(learned.networks.size());
  found.train_loss = loss_of(mean, data.y.to(mean.device(), torch::kFloat64), data.sample_weights);
  learned.members = stage == LearnStage::kRefit ? std::ssize(walks) : 0;
  learned.refit = refit_history;
  learned.held_out = held_out;
  const auto held = held_rows();
  for (size_t w = 0; w < held.size(); ++w) {
    if (std::ranges::count(predicting, w % kinds()) > 0) learned.held.push_back(held[w]);
  }
  learned.held_variance = held_variance;
  return learned;
}

Learner::Learner(const Problem& problem, LearnOptions options)
    : state_(std::make_unique<State>(problem, std::move(options))) {}
Learner::~Learner() = default;
Learner::Learner(Learner&&) noexcept = default;

std::optional<int64_t> Learner::ended_at() const {
  if (state_->stage == LearnStage::kSelection) return std::nullopt;
  return static_cast<int64_t>(state_->history.size()) - 1;
}

Learned Learner::run(const LearnHooks& hooks) {
  State& s = *state_;
  const int all_cores = at::get_num_threads();
  const auto share_cores = [&] {
    const int most = s.options.keep_threads ? 0 : s.walks.front().trainer->most_threads();
    const int useful = most * static_cast<int>(s.walks.size());
    s.cores = most > 0 ? std::min(all_cores, useful) : all_cores;
  };
  share_cores();
  // Operations between points are small; threads that share them would mostly wait for each other.
  const ThreadCount between(at_once(s.walks, s.cores) > 1 ? 1 : s.cores);
  s.started = std::chrono::steady_clock::now();
  double last_checkpoint = s.seconds();
  const auto save = [&] {
    if (hooks.checkpoint) hooks.checkpoint(checkpoint());
    last_checkpoint = s.seconds();
  };
  const auto next_point = [&] {
    ++s.point;
    if (s.seconds() - last_checkpoint >= s.options.training.checkpoint_seconds) save();
  };
  const auto interrupted = [&] {
    return !s.data.ranks->all(!hooks.stop_requested || !hooks.stop_requested());
  };
  const auto stopped = [&] {
    save();
    Learned learned;
    learned.result.outcome = train::Outcome::kInterrupted;
    learned.result.steps = s.point;
    learned.result.best_step = s.best[0].point;
    learned.result.history = s.history;
    learned.result.seconds = s.earlier_seconds = s.seconds();
    return learned;
  };
  bool ended = false;
  // Saved before the last evaluation: a run with a higher limit continues from there.
  std::optional<SafeTensors> at_limit;
  while (s.stage == LearnStage::kSelection && !ended) {
    if (interrupted()) return stopped();
    if (s.point >= s.options.training.steps) at_limit = copy_of(checkpoint());
    StepRecord seen;
    s.look(seen);
    ended = s.selection_ended();
    StepRecord row = ended ? StepRecord() : advance(s.walks, s.cores);
    row.step = s.point;
    row.val_loss = seen.val_loss;
    row.seconds = s.seconds();
    s.history.push_back(row);
    if (hooks.on_point) hooks.on_point(s.stage, row, s.options.training.steps);
    if (!ended) next_point();
  }
  if (s.stage == LearnStage::kSelection) {
    s.end_selection();
    if (s.options.refit) {
      s.start_refit();
      share_cores();
      save();
    }
  }
  while (s.stage == LearnStage::kRefit && !s.all_over() && s.point < s.last_point()) {
    if (interrupted()) return stopped();
    StepRecord row = advance(s.walks, s.cores);
    row.step = s.point;
    row.seconds = s.seconds();
    s.refit_history.push_back(row);
    if (hooks.on_point) hooks.on_point(s.stage, row, s.last_point());
    next_point();
  }
  if (at_limit && hooks.checkpoint) hooks.checkpoint(*at_limit);
  Learned learned = s.result();
  learned.result.seconds = s.earlier_seconds = s.seconds();
  return learned;
}

}  // namespace cdt::study
