#include <cdt/data/dates.h>
#include <cdt/study/parts/order.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace cdt::study {
namespace {

using torch::Tensor;

constexpr double kLaterShare = 0.2;
/// Share of steps in one direction from row to row that indicates a table sorted by its target.
constexpr double kSortedShare = 0.99;
/// Limit of chance, in standard deviations.
constexpr double kChance = 5;

/// Rows of the table, in the order of all_rows().
std::vector<int64_t> table_rows(const Problem& problem) {
  std::vector<int64_t> rows = problem.split.train;
  rows.insert(rows.end(), problem.split.validation.begin(), problem.split.validation.end());
  return rows;
}

/// Positions sorted by their keys, stably.
template <class Key>
std::vector<int64_t> sorted_by(const std::vector<Key>& keys) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
  });
  return order;
}

/// The instant of each text in a column of dates in this order; missing ones come first.
std::vector<double> times_of(const data::Column& column, data::DateOrder order,
                             const std::vector<int64_t>& rows) {
  constexpr double kBefore = -std::numeric_limits<double>::infinity();
  std::vector<double> by_category;
  for (const std::string& text : column.categories) {
    by_category.push_back(data::parse_date(text, order)->instant);
  }
  std::vector<double> times;
  for (const int64_t row : rows) {
    const int32_t code = column.codes[static_cast<size_t>(row)];
    times.push_back(code < 0 ? kBefore : by_category[static_cast<size_t>(code)]);
  }
  return times;
}

/// Whether the target is monotonic, or each class is contiguous.
bool is_sorted_by_target(const Tensor& y) {
  const Tensor first = y.narrow(0, 0, y.size(0) - 1), second = y.narrow(0, 1, y.size(0) - 1);
  if (y.size(1) > 1) {
    const auto changes = first.argmax(1).ne(second.argmax(1)).sum().item<int64_t>();
    if (changes < 2 * y.size(1)) return true;
  }
  for (int64_t t = 0; t < y.size(1); ++t) {
    const Tensor step = second.select(1, t) - first.select(1, t);
    const double up = step.ge(0).to(torch::kFloat64).mean().item<double>();
    const double down = step.le(0).to(torch::kFloat64).mean().item<double>();
    if (y.size(1) == 1 && std::max(up, down) > kSortedShare) return true;
  }
  return false;
}

/// Correlation of neighbours' targets; rows with equal features count once.
double likeness(const Tensor& y, const Tensor& x) {
  const Tensor e = y - y.mean(0);
  const int64_t pairs = y.size(0) - 1;
  const Tensor differ = x.narrow(0, 0, pairs).ne(x.narrow(0, 1, pairs)).any(1).to(torch::kFloat64);
  const Tensor product = (e.narrow(0, 0, pairs) * e.narrow(0, 1, pairs)).sum(1);
  const double scale = e.square().sum(1).mean().item<double>();
  const double count = differ.sum().item<double>();
  return count > 0 && scale > 0 ? (product * differ).sum().item<double>() / (count * scale) : 0;
}

}  // namespace

std::optional<RowOrder> find_order(const data::Table& table, const Problem& problem) {
  const train::TrainData all = all_rows(problem);
  const int64_t r = all.x.size(0);
  const std::vector<int64_t> rows = table_rows(problem);
  if (table.pictures || problem.fixed_split || all.ranks->several() || all.x.dim() != 2 ||
      r < kLeastOrdered || static_cast<int64_t>(rows.size()) != r) {
    return std::nullopt;
  }
  for (const data::Column& column : table.columns) {
    if (column.categories.size() < 2) continue;
    if (const auto dates = data::date_order(column)) {
      return RowOrder{"the column " + data::in_quotes(column.name),
                      sorted_by(times_of(column, *dates, rows))};
    }
  }
  std::vector<int64_t> lines;
  for (const int64_t row : rows) lines.push_back(table.lines[static_cast<size_t>(row)]);
  RowOrder order{"their place in the table", sorted_by(lines)};
  const Tensor at = torch::tensor(order.rows, torch::kInt64);
  const Tensor y = all.y.to(torch::kCPU, torch::kFloat64).index_select(0, at);
  const Tensor x = all.x.cpu().index_select(0, at);
  const double alike = likeness(y, x);
  const double chance = kChance / std::sqrt(static_cast<double>(r));
  if (alike < std::max(kLikeNeighbours, chance) || is_sorted_by_target(y)) return std::nullopt;
  return order;
}

void measure_later(const Problem& problem, const LearnOptions& options, const Learned& learned,
                   const RowOrder& order, const LearnHooks& hooks,
                   std::vector<Expectation>& expected) {
  const train::TrainData all = all_rows(problem);
  const auto r = static_cast<int64_t>(order.rows.size());
  const auto later = static_cast<int64_t>(kLaterShare * static_cast<double>(r));
  const int64_t before = r - later;
  std::vector<int64_t> first;
  const int64_t taken = std::min(before, kMostBefore);
  for (int64_t k = 0; k < taken; ++k) {
    first.push_back(order.rows[static_cast<size_t>(k * before / taken)]);
  }
  Problem part;
  part.preprocess = problem.preprocess;
  part.model = problem.model;
  part.fixed_split = true;
  const auto some = [&](const std::vector<int64_t>& rows) {
    const Tensor at = torch::tensor(rows, torch::kInt64);
    train::TrainData data;
    data.x = all.x.index_select(0, at.to(all.x.device()));
    data.y = all.y.index_select(0, at.to(all.y.device()));
    if (all.sample_weights.defined()) {
      data.sample_weights = all.sample_weights.index_select(0, at.to(all.sample_weights.device()));
    }
    data.output_weights = all.output_weights;
    return data;
  };
  part.data = some(first);
  const train::TrainData last = some({order.rows.begin() + before, order.rows.end()});
  part.data.x_val = last.x;
  part.data.y_val = last.y;
  part.data.val_weights = last.sample_weights;
  if (!problem.different.empty()) {
    std::vector<int64_t> rows = first;
    rows.insert(rows.end(), order.rows.begin() + before, order.rows.end());
    for (const int64_t row : rows) {
      part.different.push_back(problem.different[static_cast<size_t>(row)]);
    }
  }
  LearnOptions wanted = options;
  wanted.members = 1;
  wanted.points = 0;
  wanted.folds = 0;
  wanted.refit = wanted.intervals = false;
  wanted.training.steps = std::max<int64_t>(1, learned.result.best_step);
  if (!wanted.activations.empty()) wanted.activations = {learned.picked.front().activation};
  wanted.training.patience = 0;
  LearnHooks quiet;
  quiet.stop_requested = hooks.stop_requested;
  const Learned found = Learner(part, wanted).run(quiet);
  if (found.result.outcome == train::Outcome::kInterrupted) return;
  const std::vector<Expectation> there = expect(part, found, calibrate(part, found));
  for (size_t t = 0; t < std::min(expected.size(), there.size()); ++t) {
    const bool classes = !std::isnan(there[t].majority_wrong);
    expected[t].later =
        LaterRows{order.by, there[t].rows, classes ? there[t].wrong : there[t].rmse, there[t].r2};
  }
}

}  // namespace cdt::study
