/// A folder of pictures: one folder a class.
#pragma once

#include <cdt/core/error.h>
#include <cdt/image/picture.h>

#include <filesystem>
#include <functional>

namespace cdt::image {

struct ImageFile {
  std::filesystem::path path;
  int64_t label = 0;  ///< index into the classes
};

struct ImageFolder {
  std::filesystem::path path;
  std::vector<std::string> classes;  ///< the names of its folders, sorted by their bytes
  std::vector<ImageFile> files;      ///< by class, then by name
};

/// The files that lie in `path` itself, without classes; or the one file that it is. Again without
/// those that begin with a dot.
/// @throws InvalidArgument, IoError if it cannot be read, or is empty.
ImageFolder list_unlabelled(const std::filesystem::path& path);

/// Every file in the folders of `path` counts, whatever its name, but for those that begin with a
/// dot; folders in them do not.
/// @throws InvalidArgument, IoError if it cannot be read, has no folders, or one of them has no
///   files.
ImageFolder list_images(const std::filesystem::path& path);

struct LoadOptions {
  int64_t height = 96;
  int64_t width = 96;
  int64_t channels = 3;
  bool skip_bad = false;  ///< leave out what is no picture, or damaged, instead of refusing it
  /// Where decoded pictures are kept for the next time; empty: nowhere. They are found again as
  /// long as neither sizes nor times of the files have changed.
  std::filesystem::path cache;
  /// Called by one thread at a time; what it throws ends the loading.
  std::function<void(int64_t done, int64_t total)> progress;
};

struct SkippedFile {
  std::filesystem::path path;
  std::string reason;
};

struct LoadedImages {
  torch::Tensor x;            ///< [r, channels, height, width], float32 in [0, 1]
  torch::Tensor y;            ///< [r, classes] one-hot, float64; undefined without classes
  std::vector<int64_t> rows;  ///< of `ImageFolder::files`, that they come from
  std::vector<SkippedFile> skipped;
  bool cached = false;  ///< they were decoded before
};

/// The pictures of these rows, in this order, decoded by as many threads as LibTorch may use.
/// @throws InvalidArgument, IoError, naming the file, if one is no picture, unless such are
/// skipped;
///   if none is left, x has no rows.
LoadedImages load_images(const ImageFolder& folder, const std::vector<int64_t>& rows,
                         const LoadOptions& options);

}  // namespace cdt::image
