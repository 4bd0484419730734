/// Pictures as a table with a row per picture, its name and its class: from a folder, from IDX
/// files, or generated.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/pictures.h>
#include <cdt/data/table.h>
#include <cdt/study/options.h>

#include <filesystem>

namespace cdt::study {

/// The columns of such a table.
/// Path within the folder, or number.
inline constexpr const char* kPictureColumn = "picture";
inline constexpr const char* kClassColumn = "class";

/// Default side of pictures; those of IDX files keep their size.
inline constexpr int64_t kUsualSide = 96;

/// Whether a path leads to pictures instead of a table: a folder, or a file with the signature of
/// JPEG, PNG, IDX or gzip. (Errors are left to the reader.)
bool holds_pictures(const std::filesystem::path& path);

/// Reads pictures for training: a folder with one subfolder per class, or an IDX file with its
/// labels beside it (with "labels" instead of "images" in its name, "idx1" instead of "idx3").
/// Pictures of a folder are decoded on request, then kept. `checksum` is that of names, classes and
/// sizes of the files, or of all bytes of IDX files.
/// @throws InvalidArgument, IoError if it cannot be read, there are fewer than two classes or a
///   class is empty; for IDX files also if pictures and labels do not fit.
data::Table read_pictures(const std::filesystem::path& path, const PictureOptions& options);

/// Reads pictures for prediction, of the shape [channels, height, width]: as above, or a folder of
/// pictures without classes, one picture, or an IDX file without labels. These have no class
/// column.
/// @throws InvalidArgument, IoError if it cannot be read.
data::Table read_new_pictures(const std::filesystem::path& path, const std::vector<int64_t>& shape,
                              const PictureOptions& options);

/// The generated set (cdt/image/formats/generated.h) without files.
data::Table generated_pictures(int64_t count, uint64_t seed, int64_t side);

/// Some rows of such a table.
data::Table select_rows(const data::Table& table, const std::vector<int64_t>& rows);

/// Reads `options.file`: pictures, or a CSV file.
/// @throws InvalidArgument, IoError if it cannot be read.
data::Table read_table(const DataOptions& options);

}  // namespace cdt::study
