/// Values of a run's record as shown on its page.
#pragma once

#include <cdt/report/text.h>
#include <cdt/study/record.h>

namespace cdt::report {

using study::Record;
using study::RowUse;

/// Whether validation rows were held out to select a point.
bool predicts(const Record& run);
/// Whether its steps are points of a path.
bool walks_path(const Record& run);

/// A column of the history.
template <class T>
std::vector<double> column(const Record& run, T train::StepRecord::*member) {
  std::vector<double> values;
  for (const train::StepRecord& row : run.history) {
    values.push_back(static_cast<double>(row.*member));
  }
  return values;
}

/// Errors on rows of this use; empty if unknown.
const study::Errors& errors_of(const Record& run, RowUse use);
/// "rmse" of a number, "accuracy" of a class, …, as named in files (study/predictions.h); NaN if
/// the target has no such measure.
double measured(const study::TargetErrors& errors, const char* measure);

/// 0 means unknown.
std::string show_count(int64_t count);

/// Given settings, those chosen by a forecast, and defaults.
struct ShownSettings {
  std::vector<NameValue> given, tuned, defaults;
};
ShownSettings settings_of(const Record& run);
/// The given or tuned value, otherwise the default.
std::string setting(const Record& run, const std::string& name);

std::vector<NameValue> data_of(const Record& run);
std::vector<NameValue> machine_of(const Record& run);

}  // namespace cdt::report
