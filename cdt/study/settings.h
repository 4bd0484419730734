/// Settings of a run as files spell them: one table for writing them, reading them, and telling
/// whether two runs are the same.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/run_options.h>

#include <functional>
#include <limits>

namespace cdt::study {

/// A name and its values as text. A switch that is on has none.
struct SettingValue {
  std::string name;
  std::vector<std::string> values;
};
using Settings = std::vector<SettingValue>;

/// Values that a number may have.
struct Range {
  double lowest = -std::numeric_limits<double>::infinity();
  double highest = std::numeric_limits<double>::infinity();
  bool open = false;  ///< the lowest is excluded
};

/// One setting: flag of `cdt train`, key of its TOML files, name in run.json and in Python.
struct Setting {
  using Values = std::vector<std::string>;
  /// What its values are: one of them, or a list; names of columns may have commas of their own.
  enum class Kind { kSwitch, kWhole, kNatural, kReal, kText, kWholes, kReals, kTexts };

  std::string name;
  Kind kind = Kind::kText;
  std::string help;
  std::string placeholder;           ///< for a value, in help: "COLUMN"; empty: by kind
  std::vector<std::string> choices;  ///< the texts that it takes; empty: others, too
  Range range;                       ///< of numbers
  /// Why it does not take a text; "" if it does. Empty: `set` throws.
  std::function<std::string(const std::string&)> refuses;
  /// The values; none where there is nothing to say: a switch that is off, a rate that training
  /// finds itself.
  std::function<std::optional<Values>(const RunOptions&)> get;
  /// @throws InvalidArgument if the text is no such value.
  std::function<void(RunOptions&, const Values&)> set;
  /// Whether a resumed run may have another value: it says how long, or where, not what.
  bool may_change = false;
  bool listed = true;  ///< among the defaults of run.json and in help
  /// What it is about: columns of tables, pictures, or neither.
  enum class About { kAny, kTables, kPictures } about = About::kAny;
  /// Where help lists it, and whether the short help (`--help`, not `--help-all`) does.
  enum class Group { kData, kModel, kTraining, kControl, kOutput, kMachine } group = Group::kData;
  bool shown_first = false;
};

/// All of them, in the order in which run.json lists them.
const std::vector<Setting>& all_settings();
/// @throws InvalidArgument if the name is unknown.
const Setting& find_setting(const std::string& name);

/// Whether it was given: it is named in `given`, or has another value than usual.
bool is_decided(const RunOptions& options, const std::string& name);

/// What was decided, and what stood in for the rest.
Settings decided_settings(const RunOptions& options);
Settings usual_settings(const RunOptions& options);

/// @throws InvalidArgument if something is decided that is about tables while the data are
/// pictures,
///   or the other way round.
void require_fitting(const RunOptions& options);

/// Puts these values into the options, and their names into `given`.
/// @throws InvalidArgument if a name is unknown or a value does not fit it.
void apply(const Settings& settings, RunOptions& options);

/// A resumed run must be the same run, in values: "0.10" is "0.1". `decided` and `usual` are those
/// of the saved run, `where` is for the message.
/// @throws InvalidArgument, naming setting and values, if it is another, or one is unknown.
void require_same_run(const RunOptions& now, const Settings& decided, const Settings& usual,
                      const std::string& where);

}  // namespace cdt::study
