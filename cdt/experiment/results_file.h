/// What a sweep leaves for people and for other programs: results.json, results.csv, results.md,
/// figures.json and report.html; results.json is written and read here alone.
#pragma once

#include <cdt/core/error.h>
#include <cdt/experiment/runner.h>
#include <cdt/experiment/summary.h>

#include <map>

namespace cdt::experiment {

/// What results.json is made of. The rows are those of the sweep's runs.
struct Results {
  const Plan& plan;
  const Sweep& sweep;
  const std::vector<Row>& rows;
  std::vector<report::Claim> claims;
  std::vector<std::string> summary;  ///< paragraphs for the head of the page
  bool csv_safe = false;             ///< results.csv for spreadsheets, see data::csv_field
};

/// results.json (docs/formats.md); `files` are the checksums of the files beside it, by name.
std::string to_json(const Results& results, const std::map<std::string, std::string>& files = {});

/// Writes all of the files into the folder, or, if it throws, none; returns the text of
/// results.json.
/// @throws InvalidArgument if another process writes to the folder; IoError if the machine refuses.
std::string write_results(const std::filesystem::path& folder, const Results& results);

/// From the text of results.json, without figures; `source` is its name for messages.
/// @throws InvalidArgument if it has another format or version, has no rows, or a field is of
/// another type than it should be.
report::SweepRecord parse_results(const std::string& json, const std::string& source);

/// From results.json, and figures.json if it is there, of a sweep's folder.
/// @throws InvalidArgument likewise, and if a file cannot be read.
report::SweepRecord read_results(const std::filesystem::path& folder);

/// The checksums in results.json; earlier versions wrote none.
std::map<std::string, std::string> read_checksums(const std::filesystem::path& folder);

}  // namespace cdt::experiment
