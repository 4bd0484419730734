/// Losses by name, or a function of Python's.
#pragma once

#include <cdt/loss/loss.h>

#include <string>
#include <variant>

#include "model.h"

namespace cdt::python {

using GivenLoss = std::variant<std::string, pybind11::function>;
/// @throws InvalidArgument on a name that is none.
loss::LossPtr loss_of(const GivenLoss& given);

}  // namespace cdt::python
