/// Reads a run's folder: its record with its tables.
#pragma once

#include <cdt/core/error.h>
#include <cdt/run/record.h>

#include <filesystem>

namespace cdt::run {

/// Texts of a run's tables; empty if missing.
struct RunTables {
  std::string history;
  std::string predictions;
  std::string spectrum;
};

/// Parses these texts into the record; messages call the folder `source`.
/// @throws InvalidArgument if a table is damaged.
void read_tables(RunRecord& record, const RunTables& tables, const std::string& source);

/// Reads run.json, history.csv, predictions.csv and spectrum.csv (docs/formats.md). All but the
/// first may be missing: a run may be unfinished, interrupted, diverged, or without analysis or
/// validation.
/// @throws InvalidArgument if it is not a run folder, run.json is not JSON or of another format, or
///   a CSV file is damaged.
RunRecord read_record(const std::filesystem::path& folder);

/// Reads several; folders with equal names are named by their whole path.
std::vector<RunRecord> read_records(const std::vector<std::filesystem::path>& folders);

}  // namespace cdt::run
