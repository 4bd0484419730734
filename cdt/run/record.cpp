#include <cdt/core/error.h>
#include <cdt/run/record.h>

namespace cdt::run {

Options options_of(const RunRecord& record) {
  Options options;
  options.data.goal = study::Goal::kFit;  // default for folders that do not name a goal
  apply(record.settings, options);
  return options;
}

}  // namespace cdt::run
