#include <cdt/train/loop/residuals.h>

namespace cdt::train {

Residuals of_range(const Residuals& all, const Share& rows) {
  return all.of_samples(torch::arange(rows.first, rows.first + rows.count, all.S.device()));
}

Residuals gathered(const Residuals& own, const Ranks& ranks) {
  Residuals all;
  all.S = ranks.gather(own.S);
  all.e = ranks.gather(own.e);
  all.D = own.D;
  if (own.scale.defined()) all.scale = ranks.gather(own.scale);
  all.all_one = own.all_one;
  return all;
}

}  // namespace cdt::train
