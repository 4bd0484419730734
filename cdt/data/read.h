/// Formats of data files: how each is recognized and read as a table.
///
/// A new format is a source and a row of formats(). cdt::study adds pictures
/// (cdt/study/parts/pictures.h); programs can add their own to a copy.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/csv.h>
#include <cdt/data/pictures.h>

#include <functional>
#include <string>
#include <vector>

namespace cdt::data {

/// A file and its reading options.
struct Source {
  std::string file;
  /// For arrays: the file of the labels; empty: the labels in `file`, if any.
  std::string labels{};
  CsvOptions csv{};
  PictureOptions pictures{};
};

/// A row of the table in which commands and Python look up a reader.
struct Format {
  std::string name;       ///< "CSV"
  std::string summary;    ///< what help and messages call such a file: "a CSV file"
  bool arrays = false;    ///< columns have no names, and labels may come from another file
  bool pictures = false;  ///< rows are pictures
  /// Decides by the file's name or first bytes; never waits for a pipe.
  std::function<bool(const std::string& file)> matches;
  std::function<Table(const Source&)> read;
  /// Passes rows to predict in parts, with the total number of rows, or 0 if it is unknown. Empty:
  /// the result of `read` is split into parts.
  using Take = std::function<void(const Table& part, int64_t rows)>;
  std::function<void(const Source&, const Take&)> read_parts{};
};
using Formats = std::vector<Format>;

/// The library's formats: CSV and NumPy arrays.
Formats formats();
/// The last format that matches; otherwise the first, CSV.
Format format_of(const std::string& file, const Formats& table = formats());
/// "a CSV file, or NumPy arrays (.npy, .npz)"
std::string in_words(const Formats& table);

/// @throws InvalidArgument, IoError as the format; or if labels are given to a format without a
///   label file.
Table read_table(const Source& source, const Formats& table = formats());
/// The same in parts of some thousand rows, each with at least one row.
void read_in_parts(const Source& source, const Format::Take& take,
                   const Formats& table = formats());

}  // namespace cdt::data
