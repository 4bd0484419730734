/// Pictures as a table with a row per picture, its name and its class: from a folder, from IDX
/// files, or generated.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/read.h>
#include <cdt/study/options.h>

namespace cdt::study {

/// The columns of such a table.
/// Path within the folder, or number.
inline constexpr const char* kPictureColumn = "picture";
inline constexpr const char* kClassColumn = "class";

/// Default side of pictures; those of IDX files keep their size.
inline constexpr int64_t kUsualSide = 96;

/// The formats of tables (cdt/data/read.h), and pictures: a folder with one subfolder per class, or
/// an IDX file with its labels beside it (with "labels" instead of "images" in its name, "idx1"
/// instead of "idx3"). Pictures of a folder are decoded on request, then kept. `checksum` is that
/// of names, classes and sizes of the files, or of all bytes of IDX files.
///
/// Their readers throw InvalidArgument or IoError if a file cannot be read, there are fewer than
/// two classes or a class is empty; for IDX files also if pictures and labels do not fit.
data::Formats formats();
/// Whether a file holds pictures rather than a table: it is a folder, or has the signature of JPEG,
/// PNG or IDX. (Errors are left to the reader.)
bool holds_pictures(const std::string& file);

/// Reads pictures for prediction, of the shape [channels, height, width]: as above, or a folder of
/// pictures without classes, one picture, or an IDX file without labels. These have no class
/// column.
/// @throws InvalidArgument, IoError if it holds no pictures or cannot be read.
data::Table read_new_pictures(const std::string& file, const std::vector<int64_t>& shape);

/// The generated set (cdt/image/formats/generated.h) without files.
data::Table generated_pictures(int64_t count, uint64_t seed, int64_t side);

/// Some rows of such a table.
data::Table select_rows(const data::Table& table, const std::vector<int64_t>& rows);

/// Reads `options.file` by the formats of pictures, or by those of tables.
/// @throws InvalidArgument, IoError if it cannot be read.
data::Table read_table(const DataOptions& options);

}  // namespace cdt::study
