/// Tile sizes of kernel computations.
#pragma once

#include <torch/types.h>

namespace cdt::kernel {

/// On a CPU, tiles that fit a cache; on a GPU, which waits for each call, as large as some hundred
/// megabytes allow.
struct Tiling {
  /// Diagonal blocks of at most this many rows (of the multiplied matrices: one per position of an
  /// outer product) are multiplied whole. Larger ones are halved, and only the upper triangle of
  /// the halves' products is computed; for smaller ones this would lose more speed than symmetry
  /// saves.
  int64_t whole_rows = 256;
  int64_t panel_rows = 64;  ///< rows of a symmetric product, starting at the diagonal
  /// Rows with up to about this many entries, converted to float64, stay in a cache until
  /// multiplied.
  int64_t widened_entries = int64_t{1} << 20;
  int64_t patch_entries = int64_t{1} << 18;      ///< entries unfolded at a time, if patches are not
                                                 ///< kept
  int64_t mirrored_rows = 128;                   ///< rows of a triangle copied to the other one at
                                                 ///< a time
  int64_t temporary_entries = int64_t{1} << 23;  ///< limit on entries of products of pairs
};

inline Tiling tiling_for(torch::Device device) {
  if (!device.is_cuda()) return {};
  return {.whole_rows = 2048,
          .panel_rows = 1024,
          .widened_entries = int64_t{1} << 25,
          .patch_entries = int64_t{1} << 25,
          .mirrored_rows = 4096,
          .temporary_entries = int64_t{1} << 25};
}

}  // namespace cdt::kernel
