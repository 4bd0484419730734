/// A form (ridge.h) as the solver of a controller's damped step: for more rows than a kernel can
/// have, for classes and losses with weights.
///
/// It is of the parameters that it was made at alone: J is kept, or taken anew from them, and
/// errors are the residuals there.
#pragma once

#include <cdt/control/apply/solve.h>
#include <cdt/train/forms/ridge.h>

#include <functional>
#include <memory>

namespace cdt::train {

/// `make` linearizes at the present parameters.
std::shared_ptr<control::Solver> make_form_solver(std::function<std::unique_ptr<RidgeForm>()> make,
                                                  std::shared_ptr<const Ranks> ranks = alone());

}  // namespace cdt::train
