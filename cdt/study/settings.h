/// Table of a run's settings as spelled in files: used to write them, read them, and compare runs.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/run_options.h>

#include <functional>
#include <limits>

namespace cdt::study {

/// A name and its values as text. A switch that is on has no value.
struct SettingValue {
  std::string name;
  std::vector<std::string> values;
};
using Settings = std::vector<SettingValue>;

/// Allowed values of a number.
struct Range {
  double lowest = -std::numeric_limits<double>::infinity();
  double highest = std::numeric_limits<double>::infinity();
  bool open = false;  ///< excludes the lowest
};

/// One setting: flag of `cdt train`, key of its TOML files, name in run.json and in Python.
struct Setting {
  using Values = std::vector<std::string>;
  /// Type of its values: single or a list; names of columns may contain commas.
  enum class Kind { kSwitch, kWhole, kNatural, kReal, kText, kWholes, kReals, kTexts };

  std::string name;
  Kind kind = Kind::kText;
  std::string help;
  std::string placeholder;           ///< placeholder of a value in help: "COLUMN"; empty: by kind
  std::vector<std::string> choices;  ///< allowed texts; empty: any
  Range range;                       ///< for numbers
  /// Why a text is not allowed; "" if it is. Empty: `set` throws.
  std::function<std::string(const std::string&)> refuses;
  /// Returns the values; none if there is nothing to write: a switch that is off, a rate that
  /// training chooses.
  std::function<std::optional<Values>(const RunOptions&)> get;
  /// @throws InvalidArgument if the text is not a valid value.
  std::function<void(RunOptions&, const Values&)> set;
  /// Whether a resumed run may change it: it affects length or place, not the result.
  bool may_change = false;
  bool listed = true;  ///< shown with the defaults in run.json and in help
  /// What it applies to: tables, pictures, or both.
  enum class About { kAny, kTables, kPictures } about = About::kAny;
  /// Group in help, and whether the short help (`--help`, not `--help-all`) shows it.
  enum class Group { kData, kModel, kTraining, kControl, kOutput, kMachine } group = Group::kData;
  bool shown_first = false;
};

/// All settings, in the order of run.json.
const std::vector<Setting>& all_settings();
/// @throws InvalidArgument if the name is unknown.
const Setting& find_setting(const std::string& name);

/// Whether the user has decided it: it is named in `given`, or differs from the default.
bool is_decided(const RunOptions& options, const std::string& name);

/// Decided settings, and the defaults of all others.
Settings decided_settings(const RunOptions& options);
Settings usual_settings(const RunOptions& options);

/// @throws InvalidArgument if a decided setting applies only to tables and the data are pictures,
///   or vice versa.
void require_fitting(const RunOptions& options);

/// Sets these values in the options, and adds their names to `given`.
/// @throws InvalidArgument if a name is unknown or a value is invalid.
void apply(const Settings& settings, RunOptions& options);

/// A resumed run must have equal values: "0.10" equals "0.1". `decided` and `usual` are those of
/// the saved run, `where` is for the message.
/// @throws InvalidArgument, naming setting and values, if one differs or is unknown.
void require_same_run(const RunOptions& now, const Settings& decided, const Settings& usual,
                      const std::string& where);

}  // namespace cdt::study
