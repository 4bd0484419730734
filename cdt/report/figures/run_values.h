/// Parts of a run's record as its page shows them.
#pragma once

#include <cdt/report/text.h>
#include <cdt/study/record.h>

namespace cdt::report {

using study::Record;
using study::RowUse;

/// Whether rows that validate were held out to pick a point.
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

/// Of rows of this use; empty where they are not known.
const study::Errors& errors_of(const Record& run, RowUse use);
/// "rmse" of a number, "accuracy" of a class, …, as files name them (study/predictions.h); NaN
/// where the target has no such measure.
double measured(const study::TargetErrors& errors, const char* measure);

/// A count that is not known is 0.
std::string show_count(int64_t count);

/// Settings as they were given, as a forecast has chosen them, and those of the others.
struct ShownSettings {
  std::vector<NameValue> given, tuned, defaults;
};
ShownSettings settings_of(const Record& run);
/// As it was given or tuned, or else its default.
std::string setting(const Record& run, const std::string& name);

std::vector<NameValue> data_of(const Record& run);
std::vector<NameValue> machine_of(const Record& run);

}  // namespace cdt::report
