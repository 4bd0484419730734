/// A run's folder read back whole: its record with its tables.
#pragma once

#include <cdt/core/error.h>
#include <cdt/run/record.h>

#include <filesystem>

namespace cdt::run {

/// The texts of a run's tables; empty for one that is not there.
struct RunTables {
  std::string history;
  std::string predictions;
  std::string spectrum;
};

/// Puts what these texts hold, of a folder which messages call `source`, into the record.
/// @throws InvalidArgument if a table is damaged.
void read_tables(RunRecord& record, const RunTables& tables, const std::string& source);

/// From run.json, history.csv, predictions.csv and spectrum.csv (docs/formats.md). All but the
/// first may be absent: a run may last still, have been interrupted, have diverged, or have gone
/// without analysis or validation.
/// @throws InvalidArgument if it is no run folder, run.json is not JSON or of another format, or a
/// CSV file is damaged.
RunRecord read_record(const std::filesystem::path& folder);

/// Several; those whose folders share their names get the whole path as a name.
std::vector<RunRecord> read_records(const std::vector<std::filesystem::path>& folders);

}  // namespace cdt::run
