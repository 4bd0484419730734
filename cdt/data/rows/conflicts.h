/// Rows with equal features and different targets: no function fits them all.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace cdt::data {

struct Conflict {
  std::vector<int64_t> rows;   ///< from 0, ascending
  std::vector<int64_t> lines;  ///< lines of a file, if they come from one
  std::vector<double> gaps;    ///< per target, largest minus smallest
};

/// Conflicts among samples with features [r, f], compared bitwise, and targets [r, t], both
/// float64; ordered by first row. O(r·f).
/// @throws InvalidArgument if shapes or dtypes do not fit.
std::vector<Conflict> find_conflicts(const torch::Tensor& features, const torch::Tensor& targets);

/// Finds rows that may be equal, among features that arrive in blocks. Stores a hash of each row;
/// the caller compares rows with equal hashes.
class RowHashes {
 public:
  /// Adds rows [b, …], on the CPU.
  void add(const torch::Tensor& features);
  /// Rows, from 0, whose hash is not unique: in parts of about `most`, each ascending, with all
  /// rows of one hash in one part.
  std::vector<std::vector<int64_t>> suspects(int64_t most) const;

 private:
  std::vector<uint64_t> hashes_;
};

/// Groups of two or more equal items among `count`: by hash, then by comparison with each group's
/// first member, so hash collisions are harmless.
template <typename HashOf, typename Equal>
std::vector<std::vector<int64_t>> group_equal(int64_t count, const HashOf& hash_of,
                                              const Equal& equal) {
  std::vector<std::vector<int64_t>> groups;
  std::unordered_multimap<uint64_t, size_t> by_hash;
  by_hash.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t hash = hash_of(i);
    const auto [begin, end] = by_hash.equal_range(hash);
    const auto it = std::find_if(
        begin, end, [&](const auto& entry) { return equal(groups[entry.second].front(), i); });
    if (it != end) {
      groups[it->second].push_back(i);
    } else {
      by_hash.emplace(hash, groups.size());
      groups.push_back({i});
    }
  }
  std::erase_if(groups, [](const auto& members) { return members.size() < 2; });
  return groups;
}

}  // namespace cdt::data
