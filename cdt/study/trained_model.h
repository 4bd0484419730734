/// A finished model: preprocessing, predictor and intervals; in memory, and as bytes
/// (docs/formats.md).
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/safetensors.h>
#include <cdt/study/intervals.h>

namespace cdt::study {

struct TrainedModel {
  data::Preprocess preprocess;
  Predictor predictor;
  std::optional<Intervals> intervals;
};

/// The whole model as one file: metadata "format", "preprocess" (the text of preprocess.json),
/// "members", "calibration" and for member m "mM.architecture"; its tensors are "mM.NAME".
/// Intervals are as in their own file, with the prefix "intervals.".
SafeTensors to_safetensors(const TrainedModel& model);

/// @throws InvalidArgument, naming `source`, if the content is not such a model, or its parts are
///   inconsistent.
TrainedModel parse_trained_model(const SafeTensors& content, const std::string& source);

/// @throws InvalidArgument, naming `source`, unless networks, calibration and preprocessing are
///   consistent.
void require_fitting(const TrainedModel& model, const std::string& source);

/// Data of intervals as a file. @throws InvalidArgument from the reader, naming `source`, if they
/// are damaged, or do not have `features` features and `targets` targets.
SafeTensors to_safetensors(const Intervals& intervals);
Intervals parse_intervals(const SafeTensors& content, int64_t features, int64_t targets,
                          const std::string& source);

}  // namespace cdt::study
