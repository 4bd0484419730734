/// The files of a run folder as a report reads them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cdt::report {

/// A CSV file that this program wrote: columns of text cells.
struct CsvFile {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> cells;  ///< [columns][rows]

  size_t rows() const { return cells.empty() ? 0 : cells[0].size(); }
  /// The cells of a column; nullptr if there is none of this name.
  const std::vector<std::string>* find(const std::string& name) const;
  /// Its numbers; NaN for an empty cell or a column that is not there.
  std::vector<double> numbers(const std::string& name) const;
};

/// @throws InvalidArgument, naming `source` and the line, if a row has too few or too many cells.
CsvFile parse_csv(const std::string& text, const std::string& source);
/// A cell as a number; NaN if it is none.
double to_number(const std::string& cell);

struct RunFiles {
  std::string name;  ///< of the folder
  nlohmann::ordered_json run;
  CsvFile history;  ///< the CSV files have no columns where the run wrote none
  CsvFile predictions;
  CsvFile spectrum;
};

/// @throws InvalidArgument if it is no run folder, run.json is not JSON or of another format, or a
/// CSV file is damaged.
RunFiles read_run(const std::filesystem::path& folder);

/// The JSON in a file. @throws InvalidArgument, naming it, if it cannot be read or is not JSON.
nlohmann::ordered_json read_json(const std::filesystem::path& path);

}  // namespace cdt::report
