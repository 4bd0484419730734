/// A finished model as one thing: how it wants its features, what predicts, and its intervals; in
/// memory, and as bytes (docs/formats.md).
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

/// All of it in one file: metadata "format", "preprocess" (the text of preprocess.json), "members",
/// "calibration" and of member m "mM.architecture"; its tensors are "mM.NAME". Intervals are as in
/// a file of their own, with "intervals." before their names.
SafeTensors to_safetensors(const TrainedModel& model);

/// @throws InvalidArgument, naming `source`, if the content is no such model, or its parts do not
///   fit each other.
TrainedModel parse_trained_model(const SafeTensors& content, const std::string& source);

/// @throws InvalidArgument, naming `source`, unless networks, calibration and preprocessing fit
///   each other.
void require_fitting(const TrainedModel& model, const std::string& source);

/// What intervals need, as a file. @throws InvalidArgument from the reader, naming `source`, if
/// they are damaged, or not of `features` features and `targets` targets.
SafeTensors to_safetensors(const Intervals& intervals);
Intervals parse_intervals(const SafeTensors& content, int64_t features, int64_t targets,
                          const std::string& source);

}  // namespace cdt::study
