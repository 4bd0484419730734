#include "cdt/data/rows/equal_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "cdt/data/rows/conflicts.h"

namespace cdt::data {
namespace {

/// Share of pairs of rows with equal targets that agree in a column copied with the target.
constexpr double kMostPairs = 0.8;
/// Number of pictures decoded at a time.
constexpr int64_t kPicturesAtATime = 256;

/// Bits that are equal for equal cells: one pattern for missing values, one for both zeros.
uint64_t cell_bits(const Column& column, int64_t row) {
  const auto i = static_cast<size_t>(row);
  if (column.type == ColumnType::kText) return static_cast<uint64_t>(column.codes[i]);
  const double value = column.numbers[i];
  if (std::isnan(value)) return std::numeric_limits<uint64_t>::max();
  return std::bit_cast<uint64_t>(value == 0 ? 0.0 : value);
}

/// Mixes a cell into a hash (the finaliser of SplitMix64).
uint64_t mix(uint64_t hash, uint64_t bits) {
  uint64_t x = (hash ^ bits) + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Indices whose hash is not unique. Usually there are none.
std::vector<int64_t> suspects(const std::vector<uint64_t>& hashes) {
  std::vector<uint64_t> sorted = hashes;
  std::ranges::sort(sorted);
  std::vector<uint64_t> twice;
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i] == sorted[i - 1] && (twice.empty() || twice.back() != sorted[i]))
      twice.push_back(sorted[i]);
  }
  std::vector<int64_t> found;
  for (size_t i = 0; i < hashes.size() && !twice.empty(); ++i) {
    if (std::ranges::binary_search(twice, hashes[i])) found.push_back(static_cast<int64_t>(i));
  }
  return found;
}

int64_t different_cells(const Column& column, const std::vector<int64_t>& rows) {
  std::vector<uint64_t> cells;
  cells.reserve(rows.size());
  for (const int64_t row : rows) cells.push_back(cell_bits(column, row));
  std::ranges::sort(cells);
  return std::ranges::unique(cells).begin() - cells.begin();
}

}  // namespace

std::vector<const Column*> row_numbers(const std::vector<const Column*>& columns,
                                       const std::vector<int64_t>& rows) {
  std::vector<const Column*> found;
  for (const Column* column : columns) {
    if (column->type != ColumnType::kNumeric) continue;
    const bool whole = std::ranges::all_of(rows, [&](int64_t row) {
      const double value = column->numbers[static_cast<size_t>(row)];
      return value == std::floor(value);  // false if missing
    });
    if (whole && different_cells(*column, rows) == static_cast<int64_t>(rows.size()))
      found.push_back(column);
  }
  return found;
}

double equal_pairs_by_chance(const std::vector<const Column*>& columns,
                             const std::vector<int64_t>& rows) {
  const auto n = static_cast<double>(rows.size());
  double pairs = n * n / 2;
  for (const Column* column : columns) pairs /= static_cast<double>(different_cells(*column, rows));
  return pairs;
}

std::vector<const Column*> copied_columns(const std::vector<const Column*>& columns,
                                          const Column& target, const std::vector<int64_t>& rows) {
  std::vector<int64_t> order = rows;
  std::ranges::stable_sort(order, {}, [&](int64_t row) { return cell_bits(target, row); });
  std::vector<std::pair<int64_t, int64_t>> pairs;  // neighbours with equal targets
  for (size_t i = 1; i < order.size(); ++i) {
    if (cell_bits(target, order[i - 1]) == cell_bits(target, order[i]))
      pairs.emplace_back(order[i - 1], order[i]);
  }
  if (pairs.empty()) return {};
  std::vector<const Column*> found;
  for (const Column* column : columns) {
    const auto same = std::ranges::count_if(pairs, [&](const auto& pair) {
      return cell_bits(*column, pair.first) == cell_bits(*column, pair.second);
    });
    if (static_cast<double>(same) >= kMostPairs * static_cast<double>(pairs.size()))
      found.push_back(column);
  }
  return found;
}

std::vector<std::vector<int64_t>> equal_rows(const std::vector<const Column*>& columns,
                                             const std::vector<int64_t>& rows) {
  if (columns.empty()) return {};
  // Column by column, as they are stored.
  std::vector<uint64_t> hashes(rows.size(), 0);
  for (const Column* column : columns) {
    for (size_t i = 0; i < rows.size(); ++i)
      hashes[i] = mix(hashes[i], cell_bits(*column, rows[i]));
  }
  const std::vector<int64_t> some = suspects(hashes);
  const auto row = [&](int64_t k) {
    return rows[static_cast<size_t>(some[static_cast<size_t>(k)])];
  };
  const auto hash = [&](int64_t k) {
    return hashes[static_cast<size_t>(some[static_cast<size_t>(k)])];
  };
  const auto same = [&](int64_t a, int64_t b) {
    return std::ranges::all_of(columns, [&](const Column* column) {
      return cell_bits(*column, row(a)) == cell_bits(*column, row(b));
    });
  };
  auto sets = group_equal(static_cast<int64_t>(some.size()), hash, same);
  for (auto& members : sets) {
    for (int64_t& member : members) member = row(member);
  }
  return sets;
}

std::vector<std::vector<int64_t>> equal_pictures(const Pictures& pictures,
                                                 const std::vector<int64_t>& rows) {
  RowHashes hashes;
  const auto count = static_cast<int64_t>(rows.size());
  for (int64_t first = 0; first < count; first += kPicturesAtATime) {
    const int64_t last = std::min(first + kPicturesAtATime, count);
    hashes.add(pictures.load({rows.begin() + first, rows.begin() + last}));
  }
  std::vector<std::vector<int64_t>> sets;
  for (const std::vector<int64_t>& part : hashes.suspects(kPicturesAtATime)) {
    std::vector<int64_t> those;
    for (const int64_t place : part) those.push_back(rows[static_cast<size_t>(place)]);
    const torch::Tensor pixels = pictures.load(those).contiguous();
    const size_t width = pixels.nbytes() / those.size();
    const auto bytes = [&](int64_t k) {
      return std::string_view(static_cast<const char*>(pixels.data_ptr()), pixels.nbytes())
          .substr(static_cast<size_t>(k) * width, width);
    };
    for (auto& members : group_equal(
             static_cast<int64_t>(those.size()),
             [&](int64_t k) { return std::hash<std::string_view>()(bytes(k)); },
             [&](int64_t a, int64_t b) { return bytes(a) == bytes(b); })) {
      for (int64_t& member : members) member = those[static_cast<size_t>(member)];
      sets.push_back(std::move(members));
    }
  }
  return sets;
}

std::vector<std::vector<int64_t>> equal_columns(const std::vector<Column>& columns) {
  const auto column = [&](int64_t i) -> const Column& { return columns[static_cast<size_t>(i)]; };
  const auto hash = [&](int64_t i) {
    uint64_t found = 0;
    for (int64_t row = 0; row < column(i).rows(); ++row)
      found = mix(found, cell_bits(column(i), row));
    return found;
  };
  const auto same = [&](int64_t i, int64_t j) {
    const Column &a = column(i), &b = column(j);
    if (a.type != b.type || a.categories != b.categories) return false;
    for (int64_t row = 0; row < a.rows(); ++row) {
      if (cell_bits(a, row) != cell_bits(b, row)) return false;
    }
    return true;
  };
  return group_equal(static_cast<int64_t>(columns.size()), hash, same);
}

std::vector<int64_t> numbered(const std::vector<int64_t>& names) {
  std::unordered_map<int64_t, int64_t> numbers;
  std::vector<int64_t> found;
  found.reserve(names.size());
  for (const int64_t name : names) {
    found.push_back(numbers.emplace(name, static_cast<int64_t>(numbers.size())).first->second);
  }
  return found;
}

}  // namespace cdt::data
