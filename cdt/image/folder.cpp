#include <ATen/Parallel.h>
#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/file.h>
#include <cdt/core/safetensors.h>
#include <cdt/core/text/text.h>
#include <cdt/image/folder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

namespace cdt::image {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

/// Larger files are not accepted as pictures.
constexpr size_t kLongestFile = size_t{1} << 28;
constexpr const char* kCacheFormat = "cdt-images-1";

/// Sorted entries of a folder that do not begin with a dot.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with('.')) found.push_back(it->path());
  }
  if (error) throw_file_error("read", folder, error.value());
  std::sort(found.begin(), found.end());
  return found;
}

int64_t nanoseconds_of(fs::file_time_type time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// A name that depends on the files' current state and the decoding options.
std::string cache_key(const ImageFolder& folder, const std::vector<int64_t>& rows,
                      const LoadOptions& options) {
  Checksum sum;
  sum.add(c10::str(kCacheFormat, " ", options.channels, " ", options.height, " ", options.width));
  for (const int64_t row : rows) {
    const fs::path& path = folder.files[static_cast<size_t>(row)].path;
    std::error_code none;  // a missing file is reported when it is read
    sum.add(c10::str("\n", fs::absolute(path, none).string(), " ", fs::file_size(path, none), " ",
                     nanoseconds_of(fs::last_write_time(path, none))));
  }
  return sum.text();
}

/// One slot per row: its pixels, or the reason for having none.
struct Slot {
  Tensor pixels;
  std::string reason;
};

std::vector<Slot> decode_all(const ImageFolder& folder, const std::vector<int64_t>& rows,
                             const LoadOptions& options) {
  std::vector<Slot> slots(rows.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  int64_t done = 0;
  std::exception_ptr failure;
  const auto fill = [&](Slot& slot, const fs::path& path) {
    try {
      const std::string bytes = read_regular_file(path, kLongestFile);
      slot.pixels = to_tensor(decode(bytes, printable(path.string()), options.channels),
                              options.height, options.width);
    } catch (const InvalidArgument& error) {
      slot.reason = error.what();
    }
  };
  const auto work = [&] {
    for (size_t i = next++; i < rows.size(); i = next++) {
      try {
        fill(slots[i], folder.files[static_cast<size_t>(rows[i])].path);
        const std::lock_guard lock(mutex);
        ++done;
        if (options.progress) options.progress(done, static_cast<int64_t>(rows.size()));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = rows.size();
      }
    }
  };
  std::vector<std::thread> threads;
  const auto count = std::min<size_t>(static_cast<size_t>(at::get_num_threads()), rows.size());
  for (size_t t = 1; t < count; ++t) {
    threads.emplace_back([&] {
      at::set_num_threads(1);
      work();
    });
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return slots;
}

/// The cached pixels of all rows, if they exist.
Tensor cached_pixels(const fs::path& file, const std::vector<int64_t>& shape) {
  if (!path_exists(file)) return {};
  try {
    const SafeTensors content = load_safetensors(file);
    const auto found = content.tensors.find("x");
    if (found == content.tensors.end() || found->second.sizes() != c10::IntArrayRef(shape) ||
        found->second.scalar_type() != torch::kFloat32) {
      return {};
    }
    return found->second;
  } catch (const InvalidArgument&) {  // damaged: treated as missing
    return {};
  }
}

}  // namespace

ImageFolder list_images(const fs::path& path) {
  CDT_REQUIRE(folder_exists(path), path.string(),
              ": expected a folder with a folder of pictures for each class");
  ImageFolder folder{path, {}, {}};
  for (const fs::path& entry : entries_of(path)) {
    if (!folder_exists(entry)) continue;
    const auto label = static_cast<int64_t>(folder.classes.size());
    folder.classes.push_back(entry.filename().string());
    const size_t before = folder.files.size();
    for (const fs::path& file : entries_of(entry)) {
      if (!folder_exists(file)) folder.files.push_back({file, label});
    }
    CDT_REQUIRE(folder.files.size() > before, printable(entry.string()),
                ": expected pictures of this class, but the folder has no files");
  }
  CDT_REQUIRE(!folder.classes.empty(), path.string(),
              ": expected a folder of pictures for each class, but it has no folders");
  return folder;
}

ImageFolder list_unlabelled(const fs::path& path) {
  ImageFolder folder{path, {}, {}};
  if (!folder_exists(path)) {
    CDT_REQUIRE(path_exists(path), path.string(), ": expected a picture, or a folder of pictures");
    folder.path = path.parent_path();
    folder.files.push_back({path, 0});
    return folder;
  }
  for (const fs::path& entry : entries_of(path)) {
    if (!folder_exists(entry)) folder.files.push_back({entry, 0});
  }
  CDT_REQUIRE(!folder.files.empty(), path.string(), ": expected pictures, but it has no files");
  return folder;
}

LoadedImages load_images(const ImageFolder& folder, const std::vector<int64_t>& rows,
                         const LoadOptions& options) {
  CDT_REQUIRE(!rows.empty(), folder.path.string(), ": expected rows to load, got none");
  for (const int64_t row : rows) {
    CDT_REQUIRE(row >= 0 && row < static_cast<int64_t>(folder.files.size()), folder.path.string(),
                " has ", folder.files.size(), " pictures, none of the number ", row);
  }
  LoadedImages found;
  const fs::path file = options.cache.empty()
                            ? fs::path()
                            : options.cache / (cache_key(folder, rows, options) + ".safetensors");
  if (!file.empty()) {
    found.x = cached_pixels(
        file, {static_cast<int64_t>(rows.size()), options.channels, options.height, options.width});
  }
  found.cached = found.x.defined();
  if (found.cached) {
    found.rows = rows;
  } else {
    std::vector<Tensor> pixels;
    const std::vector<Slot> slots = decode_all(folder, rows, options);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (slots[i].pixels.defined()) {
        pixels.push_back(slots[i].pixels);
        found.rows.push_back(rows[i]);
        continue;
      }
      if (!options.skip_bad) throw InvalidArgument(slots[i].reason);
      found.skipped.push_back({folder.files[static_cast<size_t>(rows[i])].path, slots[i].reason});
    }
    found.x = pixels.empty() ? torch::empty({0, options.channels, options.height, options.width})
                             : torch::stack(pixels);
    if (!file.empty() && found.skipped.empty()) {
      make_folders(options.cache);
      save_safetensors(file, {{{"x", found.x}}, {{"format", kCacheFormat}}});
    }
  }
  std::vector<int64_t> labels;
  for (const int64_t row : found.rows) {
    labels.push_back(folder.files[static_cast<size_t>(row)].label);
  }
  if (folder.classes.empty()) return found;
  found.y = torch::one_hot(torch::tensor(labels, torch::kInt64),
                           static_cast<int64_t>(folder.classes.size()))
                .to(torch::kFloat64);
  return found;
}

}  // namespace cdt::image
