/// Identifies the run of a checkpoint: a trainer with other data, settings or model must not
/// continue from it.
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/setup.h>

#include <string>

namespace cdt::train {

/// The fingerprint of a trainer, as a JSON object of strings: checksums of its data, and the
/// settings that determine its steps. Settings that only determine when it ends may change.
std::string fingerprint(const Setup& setup);

/// @throws InvalidArgument if an entry of `saved` differs from that of `own`; the message names it.
void require_same_run(const std::string& saved, const std::string& own);

/// The outputs of the first samples at the current parameters, as JSON, which distinguish models of
/// the same shapes. Empty if outputs may differ between calls: a model without a controller may be
/// in training mode, and a single sample often is a residual function that draws new points.
std::string probe(const Setup& setup);

/// @throws InvalidArgument if the outputs differ from `saved` by more than rounding on any device.
void require_same_model(const std::string& saved, const Setup& setup);

}  // namespace cdt::train
