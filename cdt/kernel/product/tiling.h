/// Sizes of the pieces in which kernels are put together.
#pragma once

#include <torch/types.h>

namespace cdt::kernel {

/// On a CPU, pieces that stay in a cache; on a GPU, which has little use for one and waits for each
/// call, as large as a budget of some hundred megabytes allows.
struct Tiling {
  /// Diagonal blocks of at most this many rows (of the matrices that are multiplied: one for each
  /// position of an outer product) are multiplied whole; larger ones are halved, and of the halves'
  /// products only the upper triangle is computed. Below, the smaller products lose more speed than
  /// the symmetry saves.
  int64_t whole_rows = 256;
  int64_t panel_rows = 64;  ///< of a symmetric product, from the diagonal on
  /// Widened rows of about this many entries are still in a cache when they are multiplied.
  int64_t widened_entries = int64_t{1} << 20;
  int64_t patch_entries = int64_t{1} << 18;      ///< cut at a time, where patches are not kept
  int64_t mirrored_rows = 128;                   ///< of a triangle that is copied to the other one
  int64_t temporary_entries = int64_t{1} << 23;  ///< of products of pairs, at most
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
