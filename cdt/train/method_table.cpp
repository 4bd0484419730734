// The table of training methods.
#include <cdt/train/options.h>

namespace cdt::train {

// Each is defined in its own source in methods/.
MethodTraits gd_method(), gd_matched_method(), cdt_method(), guarded_method(), momentum_method(),
    adam_method(), lbfgs_method(), path_method();

const std::vector<Method>& MethodTraits::table() {
  static const std::vector<Method> rows{
      gd_method(),       gd_matched_method(), cdt_method(),   guarded_method(),
      momentum_method(), adam_method(),       lbfgs_method(), path_method(),
  };
  return rows;
}

double start_rate(const Method& method, double unit) {
  return method->by_curvature ? method->start_rate * unit : method->start_rate;
}

}  // namespace cdt::train
