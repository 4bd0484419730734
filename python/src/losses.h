/// Losses by name, or as a Python function.
#pragma once

#include <cdt/loss/loss.h>

#include <string>
#include <variant>

#include "model.h"

namespace cdt::python {

using GivenLoss = std::variant<std::string, pybind11::function>;
/// @throws InvalidArgument if the name is unknown.
loss::LossPtr loss_of(const GivenLoss& given);

}  // namespace cdt::python
