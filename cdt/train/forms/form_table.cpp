// The table of solvers.
#include <cdt/train/options.h>

namespace cdt::train {

// Each is defined in its own source in forms/.
FormTraits dual_form(), primal_form(), free_form(), sketch_form(), batch_form();

const std::vector<Form>& FormTraits::table() {
  static const std::vector<Form> rows{
      FormTraits{.name = "auto", .summary = "chosen by operations and memory", .open = true},
      dual_form(),
      primal_form(),
      free_form(),
      sketch_form(),
      batch_form(),
  };
  return rows;
}

}  // namespace cdt::train
