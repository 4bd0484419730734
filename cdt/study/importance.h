/// Permutation importance: the increase of the held-out loss when a column's values are shuffled.
#pragma once

#include <cdt/core/fields.h>
#include <cdt/study/learn.h>

namespace cdt::study {

struct Importance {
  std::string column;
  /// Relative increase of the held-out loss; about zero, or negative by chance, if nothing was
  /// learned from the column.
  double increase = 0;

  void fields(Fields& f) {
    f.need("column", column);
    f("increase", increase);
  }
};

/// Importance of each column of the table, the largest first. Each fold network predicts its own
/// held-out rows; the same seed gives the same permutations.
std::vector<Importance> permutation_importance(const Problem& problem, const Learned& learned,
                                               const loss::LossPtr& loss, uint64_t seed);

}  // namespace cdt::study
