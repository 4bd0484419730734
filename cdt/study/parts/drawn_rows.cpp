#include <cdt/core/error.h>
#include <cdt/core/text/text.h>
#include <cdt/data/encode/identifiers.h>
#include <cdt/data/rows/blocks.h>
#include <cdt/data/rows/equal_rows.h>
#include <cdt/study/parts/drawn_rows.h>
#include <cdt/study/parts/weights.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace cdt::study {
namespace {

void require_roles(const DataOptions& options) {
  for (const auto& [what, column] : {std::pair{"sample weights", &options.sample_weights},
                                     {"group", &options.group},
                                     {"time", &options.time}}) {
    CDT_REQUIRE(!data::contains(options.targets, *column), what,
                ": expected a column that is no target, got ", data::in_quotes(*column));
  }
  CDT_REQUIRE(options.group.empty() || options.time.empty(),
              "expected a split by group or by time, got both");
  CDT_REQUIRE(!options.classes || !options.target_scaling,
              "target-scale is for numbers; cross-entropy learns classes, which have no scale");
  CDT_REQUIRE(!options.classes || !options.target_transform,
              "target-transform is for numbers; cross-entropy learns classes");
  CDT_REQUIRE(options.test_fraction >= 0 && options.test_fraction < 1,
              "test fraction: expected 0 or above, and below 1, got ", options.test_fraction);
}

/// Rows of `among` that can be learned from; notes say why the others are left out.
std::vector<int64_t> usable_rows(const data::Table& table, const std::vector<int64_t>& among,
                                 const DataOptions& options, std::vector<std::string>& notes) {
  std::vector<int64_t> rows;
  int64_t without_target = 0, without_weight = 0;
  const bool drop = missing_target_of(options) == MissingTarget::kDrop;
  for (const int64_t row : among) {
    const bool missing =
        drop && std::any_of(options.targets.begin(), options.targets.end(),
                            [&](const auto& name) { return table.at(name).is_missing(row); });
    if (missing) {
      ++without_target;
    } else {
      rows.push_back(row);
    }
  }
  const auto note = [&](int64_t count, const std::string& what, const std::string& advice) {
    if (count == 0) return;
    notes.push_back(fmt::format("{} {} {} left out{}", count, count == 1 ? "row" : "rows",
                                what + (count == 1 ? " is" : " are"), advice));
  };
  note(without_target, "without a target", " (--missing-target error refuses them)");
  if (options.goal != Goal::kPredict || options.sample_weights.empty()) return rows;
  const std::vector<double> weights = read_weights(table, options.sample_weights, rows, true);
  std::vector<int64_t> weighed;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (weights[i] > 0) {
      weighed.push_back(rows[i]);
    } else {
      ++without_weight;
    }
  }
  note(without_weight, "of weight 0", "");
  return weighed;
}

/// A share of rows, rounded down.
int64_t share_of(int64_t count, double fraction) {
  return static_cast<int64_t>(std::floor(static_cast<double>(count) * fraction + 1e-9));
}

data::SplitRules split_rules(const data::Table& table, const std::vector<int64_t>& among,
                             const DataOptions& options, std::vector<std::string>& notes) {
  data::SplitRules rules;
  rules.rows = usable_rows(table, among, options, notes);
  const auto available = static_cast<int64_t>(rules.rows.size());
  const bool all = available == table.rows();
  CDT_REQUIRE(available > 0, table.source, ": expected rows to learn from, got none; ",
              notes.empty() ? "" : notes.back());
  CDT_REQUIRE(options.rows >= 0 && options.rows <= available, table.source, ": rows asks for ",
              options.rows, " rows, the file has ", available, all ? "" : " that can be used");
  rules.count = options.rows > 0 ? options.rows : available;
  if (options.test_fraction > 0) {
    rules.test = std::max<int64_t>(1, share_of(rules.count, options.test_fraction));
  }
  const int64_t left = rules.count - rules.test;
  const double fraction = train_fraction_of(options);
  rules.train = options.train_rows > 0 ? options.train_rows : share_of(left, fraction);
  CDT_REQUIRE(rules.train >= 1, "a train fraction of ", fraction, " of ", left,
              " rows leaves none to train on");
  CDT_REQUIRE(rules.train <= left, "train rows asks for ", rules.train, " of ", left, " rows");
  const bool told = options.train_rows > 0 || options.train_fraction;
  if (options.goal == Goal::kPredict && told) {
    // In the end all of those are learned from, so the others are held out from the start.
    rules.test = rules.count - rules.train;
    rules.train = std::max<int64_t>(1, share_of(rules.train, kSelectionShare));
  }
  if (!options.group.empty()) {
    rules.blocks = data::group_numbers(table, options.group);
    if (!data::contains(options.keep, options.group)) {
      const std::string name = printable_name(options.group);
      notes.push_back(fmt::format(
          "{}: left out, it says which rows belong together (--keep {} takes it)", name, name));
    }
  }
  if (!options.time.empty()) {
    rules.blocks = data::time_numbers(table, options.time, rules.rows);
    rules.by_time = true;
  }
  return rules;
}

struct Repeats {
  std::vector<std::vector<int64_t>> sets;  ///< equal rows
  std::string in;                          ///< what they are equal in: "feature"
};

/// Copies are reported only if there are this many times more than rows equal in all features.
constexpr int64_t kManyMore = 2;
/// Maximum number of pairs per row equal by chance, for rows to be reported as repeated.
constexpr double kPairsOfChance = 0.03;

/// Integer columns without repeated values may number rows that differ in nothing else. They count
/// as such if rows agree in all other features, or in these and their targets, and this is unlikely
/// by chance.
Repeats find_numbered_repeats(const data::Table& table, const DataOptions& options,
                              std::vector<const data::Column*> features,
                              const std::vector<int64_t>& rows) {
  const auto numbers = data::row_numbers(features, rows);
  if (numbers.empty()) return {};
  std::erase_if(features, [&](const data::Column* column) {
    return std::ranges::find(numbers, column) != numbers.end();
  });
  const double limit = kPairsOfChance * static_cast<double>(rows.size());
  std::string in = "feature";
  if (data::equal_pairs_by_chance(features, rows) > limit) {
    for (const std::string& name : options.targets) features.push_back(&table.at(name));
    if (data::equal_pairs_by_chance(features, rows) > limit) return {};
    in = "feature and target";
  }
  std::vector<std::string> names;
  for (const data::Column* column : numbers) names.push_back(printable_name(column->name));
  return {data::equal_rows(features, rows),
          fmt::format("{} but {} (a number for each row)", in, fmt::join(names, ", "))};
}

/// Rows copied before other columns were added (a join, a time stamp, noise on a column) agree in
/// their targets, numbers with many values, and in the earlier columns, and this is unlikely by
/// chance.
Repeats find_copies(const data::Table& table, const DataOptions& options,
                    const std::vector<const data::Column*>& features,
                    const std::vector<int64_t>& rows) {
  if (options.targets.empty() || options.classes) return {};
  const auto copied = data::copied_columns(features, table.at(options.targets[0]), rows);
  if (copied.empty() || copied.size() == features.size()) return {};
  std::vector<const data::Column*> both = copied;
  for (const std::string& name : options.targets) both.push_back(&table.at(name));
  if (data::equal_pairs_by_chance(both, rows) > kPairsOfChance * static_cast<double>(rows.size())) {
    return {};
  }
  std::vector<std::string> others;
  for (const data::Column* column : features) {
    if (std::ranges::find(copied, column) == copied.end())
      others.push_back(printable_name(column->name));
  }
  return {data::equal_rows(both, rows),
          fmt::format("feature and target but {}", fmt::join(others, ", "))};
}

int64_t rows_of(const Repeats& repeats) {
  int64_t count = 0;
  for (const auto& members : repeats.sets) count += static_cast<int64_t>(members.size());
  return count;
}

/// Sets of the drawn rows that are equal in every feature. Does not compare columns that will be
/// left out because they identify, weight or group rows.
Repeats find_repeats(const data::Table& table, const DataOptions& options,
                     const std::vector<int64_t>& rows) {
  if (table.pictures) return {data::equal_pictures(*table.pictures, rows), "pixel"};
  const data::PreprocessOptions wanted = preprocess_options(options);
  std::vector<const data::Column*> features;
  for (const data::Column& column : table.columns) {
    if (data::contains(options.targets, column.name) || data::contains(wanted.drop, column.name) ||
        (wanted.select && !data::contains(wanted.keep, column.name) &&
         data::identifier_reason(table, column))) {
      continue;
    }
    features.push_back(&column);
  }
  Repeats repeats{data::equal_rows(features, rows), "feature"};
  if (repeats.sets.empty()) repeats = find_numbered_repeats(table, options, features, rows);
  Repeats copies = find_copies(table, options, features, rows);
  return rows_of(copies) > kManyMore * rows_of(repeats) ? copies : repeats;
}

/// Merges blocks so that rows of a set are in one: the union of both relations. Each merged block
/// keeps the smallest number, so without sets nothing changes.
void join_blocks(const std::vector<std::vector<int64_t>>& sets, std::vector<int64_t>& blocks) {
  std::unordered_map<int64_t, int64_t> parent;
  const auto root = [&](int64_t block) {
    int64_t top = block;
    for (auto up = parent.find(top); up != parent.end(); up = parent.find(top)) top = up->second;
    while (block != top) block = std::exchange(parent[block], top);  // path compression
    return top;
  };
  for (const auto& rows : sets) {
    for (const int64_t row : rows) {
      const int64_t a = root(blocks[static_cast<size_t>(rows[0])]);
      const int64_t b = root(blocks[static_cast<size_t>(row)]);
      if (a != b) parent[std::max(a, b)] = std::min(a, b);
    }
  }
  for (int64_t& block : blocks) block = root(block);
}

/// By time, equal rows go where the latest of them goes, since training on the past must not
/// include them.
void join_times(const std::vector<std::vector<int64_t>>& sets, std::vector<int64_t>& times) {
  for (const auto& rows : sets) {
    int64_t latest = times[static_cast<size_t>(rows[0])];
    for (const int64_t row : rows) latest = std::max(latest, times[static_cast<size_t>(row)]);
    for (const int64_t row : rows) times[static_cast<size_t>(row)] = latest;
  }
}

std::vector<int64_t> all_of(const data::Split& split) {
  std::vector<int64_t> rows = split.train;
  rows.insert(rows.end(), split.validation.begin(), split.validation.end());
  rows.insert(rows.end(), split.test.begin(), split.test.end());
  return rows;
}

/// Redraws the split if rows repeat: the same rows, with equal ones on one side.
void keep_equal_together(const data::Table& table, const DataOptions& options, uint64_t seed,
                         DrawnRows& drawn) {
  std::vector<int64_t> rows = all_of(drawn.split);
  std::sort(rows.begin(), rows.end());
  const auto [sets, in] = find_repeats(table, options, rows);
  if (sets.empty()) return;
  std::vector<int64_t> own(static_cast<size_t>(table.rows()));
  std::iota(own.begin(), own.end(), int64_t{0});
  drawn.first = own;
  auto different = static_cast<int64_t>(rows.size());
  for (const auto& members : sets) {
    different -= static_cast<int64_t>(members.size()) - 1;
    for (const int64_t row : members) drawn.first[static_cast<size_t>(row)] = members[0];
  }
  const char* kind = table.pictures ? "picture" : "row";
  const int64_t again = static_cast<int64_t>(rows.size()) - different;
  std::string note =
      fmt::format("{} of {} {}s {} another in every {}: {} different ones", again, rows.size(),
                  kind, again == 1 ? "repeats" : "repeat", in, different);
  if (different == 1) {  // no split can keep them together
    drawn.first.clear();
    drawn.notes.push_back(note);
    return;
  }
  data::SplitRules& rules = drawn.rules;
  if (rules.by_time) {
    data::SplitRules apart = rules;
    join_times(sets, apart.blocks);
    const data::Split split = data::split_rows(apart, seed);
    // If earlier rows recur all the time, too few would be left for training.
    if (2 * static_cast<int64_t>(split.train.size()) < rules.train) {
      drawn.notes.push_back(note +
                            ". Many of the latest repeat earlier ones, which train: what is "
                            "expected of new rows holds if those repeat as often");
      return;
    }
    rules = std::move(apart);
    drawn.split = split;
  } else {
    if (rules.blocks.empty()) {
      rules.blocks = std::move(own);
      rules.blocks_are = "contents (equal ones stay together)";
    }
    join_blocks(sets, rules.blocks);
    drawn.split = data::split_rows(rules, seed);
  }
  drawn.notes.push_back(note + ". Equal ones are on one side of each split, and count once for ±");
}

}  // namespace

DrawnRows draw_rows(const data::Table& table, std::vector<int64_t> among,
                    const DataOptions& options, uint64_t seed) {
  require_roles(options);
  DrawnRows drawn;
  for (;;) {
    drawn.notes.clear();
    drawn.rules = split_rules(table, among, options, drawn.notes);
    drawn.split = data::split_rows(drawn.rules, seed);
    if (!table.pictures || !options.pictures.skip_bad) break;
    const auto bad = table.pictures->unreadable(all_of(drawn.split));
    if (bad.empty()) break;
    drawn.skipped.insert(drawn.skipped.end(), bad.begin(), bad.end());
    for (const auto& each : bad) std::erase(among, each.row);
    CDT_REQUIRE(!among.empty(), table.source, ": none of ", drawn.skipped.size(),
                " files is a picture; the first: ", bad.front().reason);
  }
  if (options.equal_rows_together) keep_equal_together(table, options, seed, drawn);
  return drawn;
}

std::vector<int64_t> numbers_of(const data::Split& split, const std::vector<int64_t>& names) {
  std::vector<int64_t> found;
  for (const auto* rows : {&split.train, &split.validation}) {
    for (const int64_t row : *rows) found.push_back(names[static_cast<size_t>(row)]);
  }
  return data::numbered(found);
}

}  // namespace cdt::study
