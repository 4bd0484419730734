/// What a checkpoint belongs to: a trainer of other data, settings or another model must not go on
/// from it.
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/setup.h>

#include <string>

namespace cdt::train {

/// Of one trainer, as a JSON object of texts: checksums of its data, and the settings that decide
/// its steps. Those that decide when it ends may change.
std::string fingerprint(const Setup& setup);

/// @throws InvalidArgument if `saved` names anything that `own` has otherwise; the message says
/// what.
void require_same_run(const std::string& saved, const std::string& own);

/// The outputs of the first samples at the present parameters, as JSON: by these a model is told
/// from one with the same shapes and another function. Empty where a model may answer otherwise
/// each time: without a controller it may be in training mode, and a single sample is how functions
/// of residuals come, which may draw new points.
std::string probe(const Setup& setup);

/// @throws InvalidArgument if the outputs are not those of `saved`, up to rounding on any device.
void require_same_model(const std::string& saved, const Setup& setup);

}  // namespace cdt::train
