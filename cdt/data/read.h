/// Formats of data files: how each is recognized, and how it becomes a table.
///
/// A new format is a source and a row of formats(). cdt::study adds pictures
/// (cdt/study/parts/pictures.h), and a program its own to a copy.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/csv.h>
#include <cdt/data/pictures.h>

#include <functional>
#include <string>
#include <vector>

namespace cdt::data {

/// A file, and how to read it.
struct Source {
  std::string file;
  /// Of arrays: the file of the labels; empty: those in `file`, or none.
  std::string labels{};
  CsvOptions csv{};
  PictureOptions pictures{};
};

/// A row of the table by which commands and Python find a reader.
struct Format {
  std::string name;       ///< "CSV"
  std::string summary;    ///< what help and messages call such a file: "a CSV file"
  bool arrays = false;    ///< columns have no names of their own, and labels may be another file
  bool pictures = false;  ///< rows are pictures
  /// By its name or its first bytes; never waits for a pipe.
  std::function<bool(const std::string& file)> matches;
  std::function<Table(const Source&)> read;
  /// Rows to predict in parts, with the number of rows in all, or 0 where it is not known yet.
  /// Empty: parts of what `read` gives.
  using Take = std::function<void(const Table& part, int64_t rows)>;
  std::function<void(const Source&, const Take&)> read_parts{};
};
using Formats = std::vector<Format>;

/// CSV, and arrays of NumPy.
Formats formats();
/// The last one that matches, or else the first: CSV.
Format format_of(const std::string& file, const Formats& table = formats());
/// "a CSV file, or NumPy arrays (.npy, .npz)"
std::string in_words(const Formats& table);

/// @throws InvalidArgument, IoError as the format; or if there are labels, and it has none apart.
Table read_table(const Source& source, const Formats& table = formats());
/// The same in parts of some thousand rows, each with one row at least.
void read_in_parts(const Source& source, const Format::Take& take,
                   const Formats& table = formats());

}  // namespace cdt::data
