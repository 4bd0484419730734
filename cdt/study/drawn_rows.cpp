#include <cdt/core/error.h>
#include <cdt/core/text.h>
#include <cdt/data/blocks.h>
#include <cdt/study/drawn_rows.h>
#include <cdt/study/weights.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace cdt::study {
namespace {

void require_roles(const DataOptions& options) {
  for (const auto& [what, column] : {std::pair{"sample weights", &options.sample_weights},
                                     {"group", &options.group},
                                     {"time", &options.time}}) {
    CDT_REQUIRE(!data::contains(options.targets, *column), what,
                ": expected a column that is no target, but came ", data::in_quotes(*column));
  }
  CDT_REQUIRE(options.group.empty() || options.time.empty(),
              "expected a split by group or by time, but came both");
  CDT_REQUIRE(!options.classes || !options.target_scaling,
              "target-scale is for numbers; cross-entropy learns classes, which have no scale");
  CDT_REQUIRE(!options.classes || !options.target_transform,
              "target-transform is for numbers; cross-entropy learns classes");
  CDT_REQUIRE(options.test_fraction >= 0 && options.test_fraction < 1,
              "test fraction: expected 0 or above, and below 1, but came ", options.test_fraction);
}

/// Those of `among` that may be learned from, and in words why not the others.
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
  CDT_REQUIRE(available > 0, table.source, ": expected rows to learn from, but there are none; ",
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

}  // namespace

DrawnRows draw_rows(const data::Table& table, std::vector<int64_t> among,
                    const DataOptions& options, uint64_t seed) {
  require_roles(options);
  DrawnRows drawn;
  for (;;) {
    drawn.notes.clear();
    drawn.rules = split_rules(table, among, options, drawn.notes);
    drawn.split = data::split_rows(drawn.rules, seed);
    if (!table.pictures || !options.pictures.skip_bad) return drawn;
    const auto& [train, validation, test] = drawn.split;
    std::vector<int64_t> rows = train;
    rows.insert(rows.end(), validation.begin(), validation.end());
    rows.insert(rows.end(), test.begin(), test.end());
    const auto bad = table.pictures->unreadable(rows);
    if (bad.empty()) return drawn;
    drawn.skipped.insert(drawn.skipped.end(), bad.begin(), bad.end());
    for (const auto& each : bad) std::erase(among, each.row);
    CDT_REQUIRE(!among.empty(), table.source, ": none of ", drawn.skipped.size(),
                " files is a picture; the first: ", bad.front().reason);
  }
}

std::vector<int64_t> number_groups(const DrawnRows& drawn) {
  std::map<int64_t, int64_t> numbers;
  std::vector<int64_t> groups;
  for (const auto* rows : {&drawn.split.train, &drawn.split.validation}) {
    for (const int64_t row : *rows) {
      const int64_t block = drawn.rules.blocks[static_cast<size_t>(row)];
      groups.push_back(numbers.emplace(block, static_cast<int64_t>(numbers.size())).first->second);
    }
  }
  return groups;
}

}  // namespace cdt::study
