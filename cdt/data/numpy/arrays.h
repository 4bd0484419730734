/// Arrays of NumPy as a table: inputs [r, m] are its columns x1, …, xm, labels y or y1, …, yk.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/csv.h>

namespace cdt::data {

/// Whether the file is one of NumPy's: FILE.npy, FILE.npz, FILE.npz:NAME, or what begins like one.
bool holds_arrays(const std::string& file);

/// The file without :NAME, the array of an archive.
std::string archive_of(const std::string& file);

/// Reads inputs and labels, each a .npy file or an array of an .npz archive (FILE.npz:NAME, or x
/// and y where it is not named). Without `labels` an archive of inputs that has a y gives its own,
/// otherwise there are none.
///
/// Columns are views: .npy files and arrays that are stored in an archive are mapped, and only
/// compressed ones take memory. Integers and bools are numbers as well, Fortran order is as good as
/// C order, NaN is a missing value. Of the options `keep`, `drop` and `types` count; rows are
/// counted from 1.
///
/// @throws InvalidArgument, naming the file, if it cannot be read, is none of NumPy's, is damaged
/// or
///   cut off, or holds no numbers (objects, text, complex numbers); inputs are not [r, m] or [r],
///   labels not [r] or [r, k] with as many rows; there are no rows; an entry is infinite; `drop` or
///   `types` name a column that is not there; or an option is for CSV files alone.
Table read_arrays(const std::string& inputs, const std::string& labels = "",
                  const CsvOptions& options = {});

/// The columns of a table of arrays that are labels.
std::vector<std::string> label_columns(const Table& table);

}  // namespace cdt::data
