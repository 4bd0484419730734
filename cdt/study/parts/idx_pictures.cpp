#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/file.h>
#include <cdt/image/formats/idx.h>
#include <cdt/image/picture.h>
#include <cdt/study/parts/idx_pictures.h>
#include <cdt/study/parts/pictures.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <mutex>
#include <numeric>
#include <unordered_map>

namespace cdt::study {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

/// Pictures of an IDX file, decompressed on request, then kept, and resized.
class IdxPictures : public data::Pictures {
 public:
  /// `file` has pictures [r, h, w]; for colour the channels are equal.
  IdxPictures(image::IdxReader file, std::vector<int64_t> shape)
      : file_(std::move(file)), shape_(std::move(shape)) {}

  std::vector<int64_t> shape() const override { return shape_; }

  Tensor load(const std::vector<int64_t>& rows) const override {
    const std::lock_guard lock(mutex_);
    unpack(rows);
    std::vector<Tensor> pixels;
    for (const int64_t row : rows) pixels.push_back(kept_.at(row));
    Tensor x = torch::stack(pixels).unsqueeze(1).to(torch::kFloat32).div_(255);
    if (x.size(2) != shape_[1] || x.size(3) != shape_[2]) {
      std::vector<Tensor> resized;
      for (const Tensor& bytes : pixels) resized.push_back(resize(bytes));
      x = torch::stack(resized);
    }
    return x.expand({-1, shape_[0], -1, -1}).clone();
  }

  std::vector<Unreadable> unreadable(const std::vector<int64_t>&) const override { return {}; }

 private:
  /// Reads the file once, from the current position if that precedes all requested rows.
  void unpack(const std::vector<int64_t>& rows) const {
    std::vector<int64_t> fresh;
    for (const int64_t row : rows) {
      if (!kept_.contains(row)) fresh.push_back(row);
    }
    if (fresh.empty()) return;
    std::sort(fresh.begin(), fresh.end());
    fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
    const auto& all = file_.shape();
    CDT_REQUIRE(fresh.front() >= 0 && fresh.back() < all[0], "expected rows among ", all[0],
                " pictures, got ", fresh.front() < 0 ? fresh.front() : fresh.back());
    const auto size = static_cast<size_t>(all[1] * all[2]);
    if (static_cast<size_t>(fresh.front()) * size < file_.place()) file_.rewind();
    const Tensor block =
        torch::empty({static_cast<int64_t>(fresh.size()), all[1], all[2]}, torch::kUInt8);
    for (size_t i = 0; i < fresh.size(); ++i) {
      file_.skip(static_cast<size_t>(fresh[i]) * size - file_.place());
      const Tensor bytes = block[static_cast<int64_t>(i)];
      file_.read(reinterpret_cast<char*>(bytes.data_ptr<uint8_t>()), size);
      kept_[fresh[i]] = bytes;
    }
  }

  Tensor resize(const Tensor& bytes) const {
    const Tensor flat = bytes.contiguous();
    const auto* data = flat.data_ptr<uint8_t>();
    image::Picture picture{flat.size(1), flat.size(0), 1, {data, data + flat.numel()}};
    return image::to_tensor(picture, shape_[1], shape_[2]);
  }

  mutable std::mutex mutex_;
  mutable image::IdxReader file_;
  std::vector<int64_t> shape_;
  mutable std::unordered_map<int64_t, Tensor> kept_;
};

/// "1", "2", …, without an intermediate list, since there may be many.
data::Column numbered_column(const std::string& name, size_t count) {
  data::Column column;
  column.name = name;
  column.type = data::ColumnType::kText;
  CDT_REQUIRE(count <= std::numeric_limits<int32_t>::max(),
              "expected at most 2³¹ − 1 pictures, got ", count);
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 1);
  std::sort(order.begin(), order.end(), [](int32_t a, int32_t b) {
    std::array<char, 12> left{}, right{};
    const auto text = [](int32_t number, std::array<char, 12>& to) {
      return std::string_view(
          to.data(), static_cast<size_t>(
                         std::to_chars(to.data(), to.data() + to.size(), number).ptr - to.data()));
    };
    return text(a, left) < text(b, right);
  });
  column.categories.reserve(count);
  column.codes.resize(count);
  for (size_t i = 0; i < count; ++i) {
    column.categories.push_back(std::to_string(order[i]));
    column.codes[static_cast<size_t>(order[i] - 1)] = static_cast<int32_t>(i);
  }
  return column;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.rfind(what);
  if (at != std::string::npos) text.replace(at, what.size(), by);
  return text;
}

/// The label file of an IDX file, by its name.
fs::path labels_of(const fs::path& images) {
  const std::string name = images.filename().string();
  const std::string labels = replaced(replaced(name, "images", "labels"), "idx3", "idx1");
  return labels == name ? fs::path() : images.parent_path() / labels;
}

image::IdxReader open_idx_pictures(const fs::path& path) {
  image::IdxReader file(path);
  CDT_REQUIRE(file.shape().size() == 3, path.string(),
              ": expected pictures, an IDX file of 3 dimensions, got ", file.shape().size(),
              file.shape().size() == 1 ? "; labels are found by the name of their pictures" : "");
  return file;
}

/// Adds all remaining values to the checksum, in parts.
void add_rest(image::IdxReader& file, Checksum& sum) {
  std::string part(size_t{1} << 16, '\0');
  while (file.place() < file.size()) {
    const size_t count = std::min(part.size(), file.size() - file.place());
    file.read(part.data(), count);
    sum.add({part.data(), count});
  }
}

data::Table idx_table(const fs::path& path, image::IdxReader file, const Tensor& labels,
                      const std::vector<int64_t>& shape) {
  data::Table table;
  table.source = path.string();
  const auto count = static_cast<size_t>(file.shape()[0]);
  table.columns.push_back(numbered_column(kPictureColumn, count));
  Checksum sum;
  add_rest(file, sum);
  if (labels.defined()) {
    const Tensor whole = labels.contiguous();
    sum.add({reinterpret_cast<const char*>(whole.data_ptr<uint8_t>()),
             static_cast<size_t>(whole.numel())});
    data::Column column;
    column.name = kClassColumn;
    const Tensor numbers = labels.to(torch::kFloat64).contiguous();
    const auto* first = numbers.data_ptr<double>();
    column.numbers = std::vector<double>(first, first + numbers.numel());
    table.columns.push_back(std::move(column));
  }
  table.checksum = sum.text();
  table.lines.resize(count);
  std::iota(table.lines.begin(), table.lines.end(), int64_t{1});
  table.pictures = std::make_shared<IdxPictures>(std::move(file), shape);
  return table;
}

Tensor read_labels(const fs::path& path, int64_t count) {
  image::IdxReader file(path);
  CDT_REQUIRE(file.shape() == std::vector<int64_t>{count}, path.string(), ": expected ", count,
              " labels, one a picture, got the shape ", c10::IntArrayRef(file.shape()));
  return image::read_all(file);
}

}  // namespace

data::Table read_idx_pictures(const fs::path& path, std::optional<int64_t> size) {
  image::IdxReader file = open_idx_pictures(path);
  const std::vector<int64_t> all = file.shape();
  const fs::path labels = labels_of(path);
  CDT_REQUIRE(!labels.empty(), path.string(),
              ": expected \"images\" or \"idx3\" in its name, by which its labels are found "
              "(\"labels\", \"idx1\")");
  const Tensor numbers = read_labels(labels, all[0]);
  return idx_table(path, std::move(file), numbers,
                   {1, size.value_or(all[1]), size.value_or(all[2])});
}

data::Table read_new_idx_pictures(const fs::path& path, const std::vector<int64_t>& shape) {
  image::IdxReader file = open_idx_pictures(path);
  const fs::path labels = labels_of(path);
  const bool known = !labels.empty() && path_exists(labels);
  const Tensor numbers = known ? read_labels(labels, file.shape()[0]) : Tensor();
  return idx_table(path, std::move(file), numbers, shape);
}

}  // namespace cdt::study
