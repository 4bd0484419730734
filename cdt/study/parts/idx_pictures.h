/// Pictures of IDX files as tables; cdt/study/parts/pictures.h decides which files are IDX files.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

#include <filesystem>
#include <optional>
#include <vector>

namespace cdt::study {

/// For training, with the labels in the file beside it. `size`: both sides in pixels; by default
/// unchanged. Needs memory for the rows requested, and some bytes for every other.
/// @throws InvalidArgument, IoError as read_pictures.
data::Table read_idx_pictures(const std::filesystem::path& path, std::optional<int64_t> size);

/// For prediction, in the shape [channels, height, width]; labels are optional.
/// @throws InvalidArgument, IoError as read_new_pictures.
data::Table read_new_idx_pictures(const std::filesystem::path& path,
                                  const std::vector<int64_t>& shape);

}  // namespace cdt::study
