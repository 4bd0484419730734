/// Output files of a sweep: results.json, results.csv, results.md, figures.json and report.html.
/// Only this file writes and reads results.json.
#pragma once

#include <cdt/core/error.h>
#include <cdt/experiment/runner.h>
#include <cdt/experiment/summary.h>

#include <map>

namespace cdt::experiment {

/// Contents of results.json. The rows refer to the sweep's runs.
struct Results {
  const Plan& plan;
  const Sweep& sweep;
  const std::vector<Row>& rows;
  std::vector<report::Claim> claims;
  std::vector<std::string> summary;  ///< paragraphs at the top of the page
  bool csv_safe = false;             ///< makes results.csv safe for spreadsheets, see
                                     ///< data::csv_field
};

/// results.json (docs/formats.md); `files` are the checksums of the other files, by name.
std::string to_json(const Results& results, const std::map<std::string, std::string>& files = {});

/// Writes all of the files into the folder, or none if it throws; returns the text of results.json.
/// @throws InvalidArgument if another process writes to the folder; IoError if writing fails.
std::string write_results(const std::filesystem::path& folder, const Results& results);

/// Parses results.json, without figures; messages call it `source`.
/// @throws InvalidArgument if it has another format or version, has no rows, or a field has the
///   wrong type.
report::SweepRecord parse_results(const std::string& json, const std::string& source);

/// Reads results.json, and figures.json if it exists, from a sweep's folder.
/// @throws InvalidArgument likewise, and if a file cannot be read.
report::SweepRecord read_results(const std::filesystem::path& folder);

/// The checksums in results.json; earlier versions wrote none.
std::map<std::string, std::string> read_checksums(const std::filesystem::path& folder);

}  // namespace cdt::experiment
