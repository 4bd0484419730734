/// A folder of pictures with one subfolder per class.
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
  std::vector<std::string> classes;  ///< names of the subfolders, sorted by their bytes
  std::vector<ImageFile> files;      ///< by class, then by name
};

/// Lists the files directly in `path`, without classes, or `path` itself if it is a file. Skips
/// files that begin with a dot.
/// @throws InvalidArgument, IoError if it cannot be read, or there are no files.
ImageFolder list_unlabelled(const std::filesystem::path& path);

/// Lists all files in the subfolders of `path`, with any name except those that begin with a dot;
/// deeper folders are ignored.
/// @throws InvalidArgument, IoError if it cannot be read, has no subfolders, or one of them has no
///   files.
ImageFolder list_images(const std::filesystem::path& path);

struct LoadOptions {
  int64_t height = 96;
  int64_t width = 96;
  int64_t channels = 3;
  bool skip_bad = false;  ///< leave out files that are damaged or not pictures, instead of throwing
  /// Folder that caches decoded pictures; empty: no cache. Valid while sizes and times of the files
  /// do not change.
  std::filesystem::path cache;
  /// Called by one thread at a time; an exception ends the loading.
  std::function<void(int64_t done, int64_t total)> progress;
};

struct SkippedFile {
  std::filesystem::path path;
  std::string reason;
};

struct LoadedImages {
  torch::Tensor x;            ///< [r, channels, height, width], float32 in [0, 1]
  torch::Tensor y;            ///< [r, classes] one-hot, float64; undefined without classes
  std::vector<int64_t> rows;  ///< rows of `ImageFolder::files` that were loaded
  std::vector<SkippedFile> skipped;
  bool cached = false;  ///< whether they came from the cache
};

/// Decodes the pictures of these rows, in this order, with as many threads as LibTorch may use.
/// @throws InvalidArgument, IoError, naming the file, if one is not a picture, unless such files
///   are skipped; if none is left, x has no rows.
LoadedImages load_images(const ImageFolder& folder, const std::vector<int64_t>& rows,
                         const LoadOptions& options);

}  // namespace cdt::image
