/// The designs of the library, one source of this folder each, and one row of table.cpp.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/core/error.h>

namespace cdt::control {

Design lqr_design();
Design damped_design();
Design descent_design();

/// @throws InvalidArgument if the problem has a Q, R or shape, which only lqr takes.
void require_scalar_weights(const ControlProblem& problem, std::string_view name);

}  // namespace cdt::control
