/// The library's designs: one source file of this folder and one row of table.cpp each.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/core/error.h>

namespace cdt::control {

Design lqr_design();
Design damped_design();
Design descent_design();

/// @throws InvalidArgument if the problem has a Q, R or shape, which only lqr supports.
void require_scalar_weights(const ControlProblem& problem, std::string_view name);

}  // namespace cdt::control
