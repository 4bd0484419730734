/// Pictures as a table: a row each, with its name and its class, from a folder, from IDX files, or
/// generated.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/read.h>
#include <cdt/study/options.h>

namespace cdt::study {

/// The columns of such a table.
inline constexpr const char* kPictureColumn =
    "picture";  ///< its path below the folder, or its number
inline constexpr const char* kClassColumn = "class";

/// The side of pictures where nobody has chosen one; those of IDX files are as they are.
inline constexpr int64_t kUsualSide = 96;

/// The formats of tables (cdt/data/read.h), and pictures: a folder with a folder a class, and an
/// IDX file with its labels beside it ("images" in its name, and "labels" in theirs; "idx3" and
/// "idx1"). Pictures of a folder are decoded when they are asked for, and then kept. `checksum` is
/// that of names, classes and sizes of the files, or of all bytes of IDX files.
///
/// Their readers throw InvalidArgument or IoError if a file cannot be read, there are fewer than
/// two classes or a class is empty; or of IDX files if pictures and labels do not fit each other.
data::Formats formats();
/// Whether a file holds pictures rather than a table: it is a folder, or begins like a JPEG, PNG
/// or IDX file. (What cannot be read is for the reader to complain of.)
bool holds_pictures(const std::string& file);

/// Pictures to predict, of the shape [channels, height, width]: as above, or a folder of pictures
/// without classes, one picture, or an IDX file without labels. Then there is no column of classes.
/// @throws InvalidArgument, IoError if it holds no pictures or cannot be read.
data::Table read_new_pictures(const std::string& file, const std::vector<int64_t>& shape);

/// The generated set (cdt/image/formats/generated.h) without files.
data::Table generated_pictures(int64_t count, uint64_t seed, int64_t side);

/// Some rows of such a table.
data::Table select_rows(const data::Table& table, const std::vector<int64_t>& rows);

/// By the formats of pictures, or by those of tables.
/// @throws InvalidArgument, IoError if it cannot be read.
data::Table read_table(const DataOptions& options);

}  // namespace cdt::study
