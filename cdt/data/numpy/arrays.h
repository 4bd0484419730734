/// Reads NumPy arrays as a table: inputs [r, m] are its columns x1, …, xm, labels y or y1, …, yk.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/csv.h>

namespace cdt::data {

/// Whether it is a NumPy file: FILE.npy, FILE.npz, FILE.npz:NAME, or a file with such a signature.
bool holds_arrays(const std::string& file);

/// The file name without :NAME, the array of an archive.
std::string archive_of(const std::string& file);

/// Reads inputs and labels, each a .npy file or an array of an .npz archive (FILE.npz:NAME, by
/// default x and y). Without `labels`, an archive of inputs that has a y provides them; otherwise
/// there are none.
///
/// Columns are views: .npy files and uncompressed arrays of an archive are mapped; only compressed
/// ones need memory. Integers and bools are numbers, Fortran order is supported, NaN is a missing
/// value. Uses the options `keep`, `drop` and `types`; rows are counted from 1.
///
/// @throws InvalidArgument, naming the file, if it cannot be read, is not a NumPy file, is damaged
///   or truncated, or does not hold numbers (objects, text, complex numbers); inputs are not [r, m]
///   or [r], labels not [r] or [r, k] with as many rows; there are no rows; an entry is infinite;
///   `drop` or `types` name a missing column; or an option applies only to CSV files.
Table read_arrays(const std::string& inputs, const std::string& labels = "",
                  const CsvOptions& options = {});

/// The label columns of a table of arrays.
std::vector<std::string> label_columns(const Table& table);

}  // namespace cdt::data
