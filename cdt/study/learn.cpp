#include <cdt/core/error.h>
#include <cdt/core/json.h>
#include <cdt/nn/engine.h>
#include <cdt/study/intervals.h>
#include <cdt/study/learn.h>
#include <cdt/train/batches.h>
#include <cdt/train/trainer.h>

#include <chrono>
#include <cmath>
#include <numeric>

namespace cdt::study {
namespace {

using torch::Tensor;
using train::StepRecord;
using Clock = std::chrono::steady_clock;

/// A kernel of more rows is not factorised for intervals.
constexpr int64_t kMostResiduals = 5000;
constexpr const char* kLearnerFormat = "cdt-learner-1";

/// Starts of members are those of seeds that lie far apart.
uint64_t seed_of(uint64_t seed, size_t member) {
  return seed + 0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(member);
}

Tensor indices(const std::vector<int64_t>& rows, torch::Device device) {
  return torch::tensor(rows, torch::kInt64).to(device);
}

train::TrainData rows_of(const train::TrainData& all, const std::vector<int64_t>& rows) {
  const Tensor at = indices(rows, all.x.device());
  train::TrainData some;
  some.x = all.x.index_select(0, at);
  some.y = all.y.index_select(0, at);
  if (all.sample_weights.defined()) {
    some.sample_weights = all.sample_weights.index_select(0, indices(rows, torch::kCPU));
  }
  some.output_weights = all.output_weights;
  return some;
}

Tensor outputs_of(const nn::Network& model, const Tensor& x, int64_t outputs) {
  const torch::NoGradGuard no_graph;
  return model->forward(x).view({x.size(0), outputs}).to(torch::kFloat64);
}

}  // namespace

train::TrainData all_rows(const Problem& problem) {
  const train::TrainData& data = problem.data;
  if (!data.x_val.defined()) return data;
  train::TrainData all;
  all.x = torch::cat({data.x, data.x_val});
  all.y = torch::cat({data.y, data.y_val});
  all.output_weights = data.output_weights;
  all.sample_weights = data.sample_weights;
  if (data.sample_weights.defined()) {
    all.sample_weights = torch::cat({data.sample_weights, data.val_weights});
  }
  return all;
}

int64_t usual_members(const Problem& problem, const train::TrainOptions& training) {
  // Of one member, walk and refit: kernels of n outputs and their factorisations, or epochs.
  constexpr double kPointsOfAWalk = 30;
  constexpr double kEpochsOfAWalk = 60;
  constexpr double kOperationsASecond = 4e10;  // of two cores, in the mix of precisions at hand
  constexpr double kSeconds = 10;
  constexpr int64_t kMembers = 4;
  const train::TrainData all = all_rows(problem);
  const auto r = static_cast<double>(all.x.size(0));
  const double pass = r * problem.model->operations_per_sample().step;
  double operations = kEpochsOfAWalk * pass;
  if (training.method == train::Method::kPath) {
    const bool classes = training.loss == dynamics::Loss::kCrossEntropy;
    const double n = r * static_cast<double>(classes ? 1 : all.y.size(1));
    double width = static_cast<double>(all.x.size(1));
    for (const torch::Tensor& parameter : problem.model->parameters()) {
      if (parameter.dim() == 2) width += static_cast<double>(parameter.size(0));
    }
    const bool matrix = !classes || all.y.size(1) == 2;
    operations =
        kPointsOfAWalk * (matrix ? n * n * width + n * n * n / 3 + 4 * pass : 2 * 40 * pass);
  }
  return kMembers * operations <= kSeconds * kOperationsASecond ? kMembers : 1;
}

struct Learner::State {
  /// A network on its way.
  struct Walk {
    nn::Network model;
    std::optional<train::Trainer> trainer;
    train::TrainData rows;      ///< that it sees
    std::vector<int64_t> held;  ///< that it does not
    Tensor x_held, y_held, held_weights;
    int64_t steps_a_point = 1;
    bool over = false;  ///< there is no point behind this one
  };

  State(const Problem& problem_, LearnOptions options_)
      : problem(problem_),
        options(std::move(options_)),
        data(all_rows(problem)),
        objective(options.training.loss, 0) {
    check();
    start_selection();
  }

  void check() const {
    const int64_t r = data.x.size(0);
    CDT_REQUIRE(options.members >= 1, "an ensemble needs a member at least, not ", options.members);
    CDT_REQUIRE(options.folds >= 0 && options.folds != 1, "folds must be 2 or more, not ",
                options.folds);
    CDT_REQUIRE(options.training.steps >= 0, "points must be 0 or more, not ",
                options.training.steps);
    CDT_REQUIRE(folds() == 0 || r >= 2, "there must be two rows to hold one out, not ", r);
    CDT_REQUIRE(folds() > 0 || problem.data.x_val.defined(),
                "no row was left to validate with: a train fraction below 1, or folds, choose when "
                "to stop");
  }

  int64_t folds() const {
    if (problem.fixed_split) return 0;
    const int64_t wanted = options.folds > 0     ? options.folds
                           : options.members > 1 ? std::max(options.members, kLeastFolds)
                                                 : 0;
    return std::min(wanted, problem.groups.empty() ? data.x.size(0)
                                                   : 1 + *std::max_element(problem.groups.begin(),
                                                                           problem.groups.end()));
  }

  /// Which rows each walk holds out.
  std::vector<std::vector<int64_t>> held_rows() const {
    const int64_t r = data.x.size(0);
    const int64_t parts = folds();
    if (parts == 0) {  // the problem's own split, the same for all
      std::vector<int64_t> last(static_cast<size_t>(r - problem.data.x.size(0)));
      std::iota(last.begin(), last.end(), problem.data.x.size(0));
      return std::vector(static_cast<size_t>(options.members), last);
    }
    // Units that stay together: rows, or groups of them.
    std::vector<int64_t> unit = problem.groups;
    if (unit.empty()) {
      unit.resize(static_cast<size_t>(r));
      std::iota(unit.begin(), unit.end(), int64_t{0});
    }
    const int64_t units = 1 + *std::max_element(unit.begin(), unit.end());
    const auto order = data::sample_rows(units, units, options.training.seed);
    std::vector<int64_t> fold(static_cast<size_t>(units));
    for (int64_t i = 0; i < units; ++i)
      fold[static_cast<size_t>(order[static_cast<size_t>(i)])] = i % parts;
    const int64_t walks = options.folds > 0 ? std::max(options.members, parts) : options.members;
    std::vector<std::vector<int64_t>> held(static_cast<size_t>(walks));
    for (int64_t w = 0; w < walks; ++w) {
      for (int64_t row = 0; row < r; ++row) {
        if (fold[static_cast<size_t>(unit[static_cast<size_t>(row)])] == w % parts)
          held[static_cast<size_t>(w)].push_back(row);
      }
    }
    return held;
  }

  nn::Network network(size_t member) const {
    nn::NetworkOptions layers = options.network;
    layers.input_shape = data.x.sizes().slice(1).vec();
    layers.outputs = data.y.size(1);
    nn::Network made =
        nn::make_network(layers, seed_of(options.training.seed, member), options.network.dtype);
    made->to(data.x.device());
    return made;
  }

  /// A trainer that does not stop by itself.
  void make_trainer(Walk& walk, int64_t points) const {
    train::TrainOptions training = options.training;
    const train::Batches batches(walk.rows.x.size(0), training.batch, training.reshuffle,
                                 training.seed);
    walk.steps_a_point = batches.per_epoch();
    training.steps = points * walk.steps_a_point;
    training.patience = 0;
    training.stop_loss = 0;
    training.max_seconds = 0;
    walk.trainer.emplace(walk.model, walk.rows, training, nn::make_engine(walk.model));
  }

  void start_selection() {
    const auto held = held_rows();
    const int64_t r = data.x.size(0);
    held_out = torch::full({r, data.y.size(1)}, train::kUnknown, torch::kFloat64);
    for (size_t w = 0; w < held.size(); ++w) {
      std::vector<bool> out(static_cast<size_t>(r));
      for (const int64_t row : held[w]) out[static_cast<size_t>(row)] = true;
      std::vector<int64_t> seen;
      for (int64_t row = 0; row < r; ++row) {
        if (!out[static_cast<size_t>(row)]) seen.push_back(row);
      }
      Walk walk;
      walk.model = network(w);
      walk.rows = rows_of(data, seen);
      walk.held = held[w];
      const train::TrainData rest = rows_of(data, held[w]);
      walk.x_held = rest.x;
      walk.y_held = rest.y.to(torch::kFloat64);
      walk.held_weights = rest.sample_weights;
      make_trainer(walk, options.training.steps);
      walks.push_back(std::move(walk));
    }
  }

  void start_refit() {
    stage = LearnStage::kRefit;
    walks.clear();
    const bool one_point = best_point == 0;
    for (int64_t m = 0; m < options.members; ++m) {
      Walk walk;
      walk.model = network(static_cast<size_t>(m));
      walk.rows = data;
      make_trainer(walk, best_point);
      walk.over = one_point;
      walks.push_back(std::move(walk));
    }
    point = 0;
  }

  double loss_of(const Walk& walk, const Tensor& outputs) const {
    const Tensor labels = walk.y_held;
    Tensor weights = walk.held_weights;
    if (!weights.defined()) return objective.assess(outputs, labels).loss;
    weights = weights / weights.mean();
    weights = weights.to(labels.device()).unsqueeze(1).expand_as(labels).reshape({-1});
    return objective.assess(outputs, labels, weights).objective;
  }

  /// Looks at the rows held out; whether this is the best point yet.
  void look(StepRecord& row) {
    std::vector<Tensor> outputs;
    double sum = 0, rows = 0;
    for (const Walk& walk : walks) {
      outputs.push_back(outputs_of(walk.model, walk.x_held, data.y.size(1)));
      const double count = walk.held_weights.defined() ? walk.held_weights.sum().item<double>()
                                                       : static_cast<double>(walk.held.size());
      sum += count * loss_of(walk, outputs.back());
      rows += count;
    }
    row.val_loss = sum / rows;
    if (best_point >= 0 && !(row.val_loss < best_loss)) return;
    best_point = point;
    best_loss = row.val_loss;
    const Tensor total = torch::zeros_like(held_out);
    const Tensor count = torch::zeros({held_out.size(0), 1}, torch::kFloat64);
    for (size_t w = 0; w < walks.size(); ++w) {
      const Tensor at = indices(walks[w].held, torch::kCPU);
      total.index_add_(0, at, outputs[w].cpu());
      count.index_add_(0, at, torch::ones({at.size(0), 1}, torch::kFloat64));
    }
    held_out = total / count;  // NaN where none was
    best.clear();
    for (const Walk& walk : walks) {
      best.emplace_back();
      for (const Tensor& p : walk.model->parameters()) best.back().push_back(p.detach().clone());
    }
  }

  void return_to_best() {
    const torch::NoGradGuard no_graph;
    for (size_t w = 0; w < walks.size(); ++w) {
      const auto parameters = walks[w].model->parameters();
      for (size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(best[w][i]);
    }
  }

  /// Before the walks are forgotten: what their linearizations say of rows that they have not seen.
  void find_variances() {
    const size_t last = best_point > 0 ? static_cast<size_t>(best_point) - 1 : 0;
    const double tau = history.at(last).decay;
    if (!options.intervals || !(tau > 0) || data.y.numel() > kMostResiduals) return;
    return_to_best();
    held_variance = torch::full_like(held_out, train::kUnknown);
    for (const Walk& walk : walks) {
      const Tensor v = relative_variance(walk.model, walk.rows.x, tau, walk.x_held);
      held_variance.index_copy_(0, indices(walk.held, torch::kCPU), v);
    }
  }

  /// One point further with all walks. Losses in `row` are of where it starts.
  void advance(StepRecord& row) {
    double train_loss = 0, objective_sum = 0, decay = 0, freedom = 0, rows = 0;
    bool over = true;
    for (Walk& walk : walks) {
      StepRecord first;
      for (int64_t s = 0; s < walk.steps_a_point && !walk.over; ++s) {
        const train::StepResult done = walk.trainer->step();
        if (s == 0) first = done.record;
        row.refreshed += done.record.refreshed;
        row.rejected += done.record.rejected;
        if (done.outcome) walk.over = true;
      }
      over = over && walk.over;
      const auto count = static_cast<double>(walk.rows.x.size(0));
      train_loss += count * first.train_loss;
      objective_sum += count * first.objective;
      decay += count * first.decay;
      freedom += count * first.freedom;
      rows += count;
    }
    row.train_loss = train_loss / rows;
    row.objective = objective_sum / rows;
    row.decay = decay / rows;
    row.freedom = freedom / rows;
    all_over = over;
  }

  double seconds() const {
    return earlier_seconds + std::chrono::duration<double>(Clock::now() - started).count();
  }

  bool selection_ended() const {
    return all_over || point >= options.training.steps || !std::isfinite(last_loss) ||
           (options.training.patience > 0 && point - best_point >= options.training.patience);
  }

  const Problem& problem;
  LearnOptions options;
  train::TrainData data;
  train::Objective objective;
  LearnStage stage = LearnStage::kSelection;
  std::vector<Walk> walks;
  int64_t point = 0;
  bool all_over = false;
  double last_loss = 0;
  int64_t best_point = -1;
  double best_loss = train::kUnknown;
  Tensor held_out;
  Tensor held_variance;
  std::vector<std::vector<Tensor>> best;  ///< parameters of the walks there
  std::vector<StepRecord> history, refit_history;
  double earlier_seconds = 0;
  Clock::time_point started = Clock::now();
};

Learner::Learner(const Problem& problem, LearnOptions options)
    : state_(std::make_unique<State>(problem, std::move(options))) {}
Learner::~Learner() = default;
Learner::Learner(Learner&&) noexcept = default;

Learned Learner::run(const LearnHooks& hooks) {
  State& s = *state_;
  s.started = Clock::now();
  double last_checkpoint = s.seconds();
  const auto save = [&] {
    if (hooks.checkpoint) hooks.checkpoint(checkpoint());
    last_checkpoint = s.seconds();
  };
  const auto interrupted = [&] { return hooks.stop_requested && hooks.stop_requested(); };
  const auto stopped = [&] {
    save();
    Learned learned;
    learned.result.outcome = train::Outcome::kInterrupted;
    learned.result.steps = s.point;
    learned.result.best_step = s.best_point;
    learned.result.best_val_loss = s.best_loss;
    learned.result.history = s.history;
    learned.result.seconds = s.earlier_seconds = s.seconds();
    return learned;
  };
  while (s.stage == LearnStage::kSelection) {
    if (interrupted()) return stopped();
    StepRecord row;
    row.step = s.point;
    s.look(row);
    s.last_loss = row.val_loss;
    const bool ended = s.selection_ended();
    if (!ended) s.advance(row);
    row.seconds = s.seconds();
    s.history.push_back(row);
    if (hooks.on_point) hooks.on_point(s.stage, row, s.options.training.steps);
    if (!ended) {
      ++s.point;
      if (s.seconds() - last_checkpoint >= s.options.training.checkpoint_seconds) save();
      continue;
    }
    s.find_variances();
    if (!s.options.refit) break;
    s.start_refit();
    save();
  }
  while (s.options.refit && s.point < s.best_point && !s.all_over) {
    if (interrupted()) return stopped();
    StepRecord row;
    row.step = s.point;
    s.advance(row);
    row.seconds = s.seconds();
    s.refit_history.push_back(row);
    if (hooks.on_point) hooks.on_point(s.stage, row, s.best_point);
    ++s.point;
    if (s.seconds() - last_checkpoint >= s.options.training.checkpoint_seconds) save();
  }
  Learned learned;
  train::TrainResult& result = learned.result;
  if (!s.options.refit) s.return_to_best();
  const bool patient = s.history.back().step - s.best_point >= s.options.training.patience &&
                       s.options.training.patience > 0;
  result.outcome = patient ? train::Outcome::kEarlyStopping : train::Outcome::kSteps;
  result.steps = result.best_step = s.best_point;
  result.val_loss = result.best_val_loss = s.best_loss;
  result.history = s.history;
  for (const auto* rows : {&s.history, &s.refit_history}) {
    for (const StepRecord& row : *rows) {
      result.linearizations += row.refreshed;
      result.rejected += row.rejected;
    }
  }
  Tensor mean;
  for (const auto& walk : s.walks) {
    learned.members.push_back(walk.model);
    const Tensor outputs = outputs_of(walk.model, s.data.x, s.data.y.size(1));
    mean = mean.defined() ? mean + outputs : outputs;
  }
  mean = mean / static_cast<double>(learned.members.size());
  result.train_loss = s.objective.assess(mean, s.data.y.to(torch::kFloat64)).loss;
  if (!s.refit_history.empty()) learned.decay = s.refit_history.back().decay;
  learned.refit = s.refit_history;
  learned.held_out = s.held_out;
  learned.held_variance = s.held_variance;
  result.seconds = s.earlier_seconds = s.seconds();
  return learned;
}

SafeTensors Learner::checkpoint() const {
  const State& s = *state_;
  SafeTensors content;
  content.metadata["format"] = kLearnerFormat;
  nlohmann::ordered_json state{{"stage", s.stage == LearnStage::kRefit ? 1 : 0},
                               {"point", s.point},
                               {"best_point", s.best_point},
                               {"best_loss", s.best_loss},
                               {"seconds", s.seconds()},
                               {"walks", s.walks.size()}};
  for (const auto& walk : s.walks) state["over"].push_back(walk.over);
  content.metadata["state"] = dump_exactly(state, "the checkpoint");
  content.metadata["history"] = train::to_csv(s.history);
  content.metadata["refit_history"] = train::to_csv(s.refit_history);
  content.tensors["held_out"] = s.held_out;
  if (s.held_variance.defined()) content.tensors["held_variance"] = s.held_variance;
  for (size_t w = 0; w < s.walks.size(); ++w) {
    const std::string name = c10::str("walk.", w, ".");
    const SafeTensors part = s.walks[w].trainer->checkpoint();
    for (const auto& [key, tensor] : part.tensors) content.tensors[name + key] = tensor;
    for (const auto& [key, text] : part.metadata) content.metadata[name + key] = text;
    if (s.stage == LearnStage::kRefit || w >= s.best.size()) continue;
    for (size_t i = 0; i < s.best[w].size(); ++i) {
      content.tensors[c10::str("best.", w, ".", i)] = s.best[w][i];
    }
  }
  return content;
}

void Learner::restore(const SafeTensors& content) {
  State& s = *state_;
  const auto text = [&](const std::string& name) {
    const auto found = content.metadata.find(name);
    CDT_REQUIRE(found != content.metadata.end(), "the checkpoint has no ", name);
    return found->second;
  };
  CDT_REQUIRE(text("format") == kLearnerFormat, "expected a checkpoint of the format ",
              kLearnerFormat);
  const JsonValue saved = parse_json(text("state"), "the checkpoint's state");
  const bool refit = saved["stage"].whole(0, 1) == 1;
  const int64_t point = saved["point"].count();
  const int64_t best_point = saved["best_point"].whole(-1);
  auto history = train::parse_history(text("history"));
  auto refit_history = train::parse_history(text("refit_history"));
  CDT_REQUIRE(!refit || s.options.refit, "the checkpoint is of a fit with a refit");
  CDT_REQUIRE(best_point < static_cast<int64_t>(history.size()) && (!refit || best_point >= 0),
              "the checkpoint's best point, ", best_point, ", is not in its history");
  const auto held = content.tensors.find("held_out");
  CDT_REQUIRE(held != content.tensors.end() && held->second.sizes() == s.held_out.sizes() &&
                  held->second.scalar_type() == torch::kFloat64,
              "the checkpoint has no predictions of the rows held out");
  s.best_point = best_point;
  if (refit) s.start_refit();
  CDT_REQUIRE(saved["walks"].count() == static_cast<int64_t>(s.walks.size()),
              "the checkpoint is of ", saved["walks"].count(), " walks, not ", s.walks.size());
  const auto over = saved["over"].list();
  CDT_REQUIRE(over.size() == s.walks.size(), "the checkpoint does not say which walks are over");
  s.best.clear();
  s.all_over = true;
  for (size_t w = 0; w < s.walks.size(); ++w) {
    const std::string name = c10::str("walk.", w, ".");
    SafeTensors part;
    for (const auto& [key, tensor] : content.tensors) {
      if (key.starts_with(name)) part.tensors[key.substr(name.size())] = tensor;
    }
    for (const auto& [key, value] : content.metadata) {
      if (key.starts_with(name)) part.metadata[key.substr(name.size())] = value;
    }
    s.walks[w].trainer->restore(part);
    s.walks[w].over = over[w].flag();
    s.all_over = s.all_over && s.walks[w].over;
    if (refit || best_point < 0) continue;
    s.best.emplace_back();
    const auto parameters = s.walks[w].model->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto found = content.tensors.find(c10::str("best.", w, ".", i));
      CDT_REQUIRE(found != content.tensors.end() &&
                      found->second.sizes() == parameters[i].sizes() &&
                      found->second.scalar_type() == parameters[i].scalar_type(),
                  "the checkpoint lacks parameters of its best point");
      s.best.back().push_back(found->second.to(parameters[i].device()));
    }
  }
  s.point = point;
  s.best_loss = saved["best_loss"].number_or_nan();
  s.held_out = held->second.clone();
  if (const auto found = content.tensors.find("held_variance"); found != content.tensors.end()) {
    CDT_REQUIRE(found->second.sizes() == s.held_out.sizes() &&
                    found->second.scalar_type() == torch::kFloat64,
                "the checkpoint's variances are not those of its rows");
    s.held_variance = found->second.clone();
  }
  s.history = std::move(history);
  s.refit_history = std::move(refit_history);
  s.earlier_seconds = saved["seconds"].number();
  CDT_REQUIRE(static_cast<int64_t>((refit ? s.refit_history : s.history).size()) == point,
              "the checkpoint is of point ", point, ", its history is not");
}

}  // namespace cdt::study
