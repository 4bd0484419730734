/// Pictures as the features of a table's rows.
///
/// Subclasses decide where pictures are stored and how they are decoded: folders, digit files,
/// memory.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cdt::data {

class Pictures {
 public:
  struct Unreadable {
    int64_t row = 0;
    std::string reason;  ///< names the file
  };

  virtual ~Pictures() = default;

  /// Shape of each picture: channels, height, width.
  virtual std::vector<int64_t> shape() const = 0;
  /// [rows.size(), channels, height, width], float32 in [0, 1]; the caller owns it. Thread-safe.
  /// @throws InvalidArgument if a picture cannot be read; the message names it.
  virtual torch::Tensor load(const std::vector<int64_t>& rows) const = 0;
  /// The `rows` for which `load` would throw.
  virtual std::vector<Unreadable> unreadable(const std::vector<int64_t>& rows) const = 0;
};

/// Pictures in memory.
class TensorPictures : public Pictures {
 public:
  /// x [r, channels, height, width], float32 in [0, 1].
  /// @throws InvalidArgument otherwise.
  explicit TensorPictures(torch::Tensor x);

  std::vector<int64_t> shape() const override { return x_.sizes().slice(1).vec(); }
  torch::Tensor load(const std::vector<int64_t>& rows) const override;
  std::vector<Unreadable> unreadable(const std::vector<int64_t>&) const override { return {}; }

 private:
  torch::Tensor x_;
};

/// How pictures become samples (cdt/study/parts/pictures.h).
struct PictureOptions {
  std::optional<int64_t> size;  ///< of both sides; default: 96, of IDX files as they are
  bool grey = false;            ///< one channel instead of three; IDX files have one anyway
  bool skip_bad = false;        ///< leave out files that are no pictures, or damaged
  /// A folder where decoded pictures are kept for the next time; empty: nowhere.
  std::string cache{};
  std::function<void(int64_t done, int64_t total)> progress{};  ///< of decoding
  /// To predict: [channels, height, width] of training, and classes need not be known.
  std::vector<int64_t> shape;
};

}  // namespace cdt::data
