/// Pictures of IDX files as tables; cdt/study/parts/pictures.h decides which file is one.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

#include <filesystem>
#include <optional>
#include <vector>

namespace cdt::study {

/// To learn from, with the labels beside it. `size`: both sides in pixels; as they are without.
/// Memory is that of the rows that are asked for, and some bytes for every other.
/// @throws InvalidArgument, IoError as read_pictures.
data::Table read_idx_pictures(const std::filesystem::path& path, std::optional<int64_t> size);

/// To predict, of the shape [channels, height, width]; labels need not be there.
/// @throws InvalidArgument, IoError as read_new_pictures.
data::Table read_new_idx_pictures(const std::filesystem::path& path,
                                  const std::vector<int64_t>& shape);

}  // namespace cdt::study
