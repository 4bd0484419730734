/// Settings of a run as files spell them: one table for writing them, reading them, and telling
/// whether two runs are the same.
#pragma once

#include <cdt/core/error.h>
#include <cdt/run/options.h>
#include <cdt/study/record.h>

#include <functional>

namespace cdt::run {

using study::Settings;
using study::SettingValue;

/// One setting: where it lives in the options.
struct Setting {
  std::string name;
  /// The values; none where there is nothing to say: a switch that is off, a rate that training
  /// finds itself.
  std::function<std::optional<std::vector<std::string>>(const Options&)> get;
  /// @throws InvalidArgument if the text is no such value.
  std::function<void(Options&, const std::vector<std::string>&)> set;
  /// Whether a resumed run may have another value: it says how long, or where, not what.
  bool may_change = false;
  bool listed = true;  ///< among the defaults of run.json, where nobody has decided it
  /// What it is about: columns of tables, pictures, or neither.
  enum class About { kAny, kTables, kPictures } about = About::kAny;
};

/// All of them, in the order in which run.json lists them.
const std::vector<Setting>& all_settings();
/// @throws InvalidArgument if there is none of this name.
const Setting& find_setting(const std::string& name);

/// Whether somebody has decided it: it is named in `given`, or has another value than usual.
bool is_decided(const Options& options, const std::string& name);

/// What was decided, and what stood in for the rest.
Settings decided_settings(const Options& options);
Settings usual_settings(const Options& options);

/// @throws InvalidArgument if something is decided that is about tables while the data are
/// pictures,
///   or the other way round.
void require_fitting(const Options& options);

/// Puts these values into the options, and their names into `given`.
/// @throws InvalidArgument if a name is unknown or a value is none of it.
void apply(const Settings& settings, Options& options);

/// A resumed run must be the same run, in values: "0.10" is "0.1". `decided` and `usual` are those
/// of the saved run, `where` is for the message.
/// @throws InvalidArgument, naming setting and values, if it is another, or one is unknown.
void require_same_run(const Options& now, const Settings& decided, const Settings& usual,
                      const std::string& where);

}  // namespace cdt::run
