/// A form (ridge.h) as the solver of a controller's damped step: for more rows than a kernel can
/// have, for classes, and for losses with weights.
///
/// It is valid only at the parameters for which it was made: J is stored or recomputed from them,
/// and errors are the residuals there.
#pragma once

#include <cdt/control/apply/solve.h>
#include <cdt/train/forms/ridge.h>

#include <functional>
#include <memory>

namespace cdt::train {

/// `make` linearizes at the current parameters.
std::shared_ptr<control::Solver> make_form_solver(std::function<std::unique_ptr<RidgeForm>()> make,
                                                  std::shared_ptr<const Ranks> ranks = alone());

}  // namespace cdt::train
