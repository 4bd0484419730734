/// Which columns matter: how much worse rows that were held out are predicted when a column's
/// values are exchanged among them.
#pragma once

#include <cdt/core/fields.h>
#include <cdt/study/learn.h>

namespace cdt::study {

struct Importance {
  std::string column;
  /// The loss of the rows held out, above what it is without the exchange, as a share of that;
  /// about zero, or below it by chance, where nothing was learned from the column.
  double increase = 0;

  void fields(Fields& f) {
    f.need("column", column);
    f("increase", increase);
  }
};

/// By column of the table, the most important one first. Each network predicts its held-out rows;
/// the same seed gives the same exchange.
std::vector<Importance> permutation_importance(const Problem& problem, const Learned& learned,
                                               const loss::LossPtr& loss, uint64_t seed);

}  // namespace cdt::study
