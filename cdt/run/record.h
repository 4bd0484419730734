/// The record of a run (study/record.h) under this module's names, and its options.
#pragma once

#include <cdt/core/error.h>
#include <cdt/run/settings.h>
#include <cdt/study/record.h>

namespace cdt::run {

using RunRecord = study::Record;
using study::kBoundsCoverage;
using study::measure_errors;
using study::parse_record;
using study::predict_splits;
using study::RunErrors;
using study::RunPrediction;
using study::SplitPredictions;
using study::to_json;

/// Options that repeat the run, except its folder.
/// @throws InvalidArgument if a setting is unknown.
Options options_of(const RunRecord& record);

}  // namespace cdt::run
