#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/file.h>
#include <cdt/core/text/text.h>
#include <cdt/image/folder.h>
#include <cdt/image/formats/generated.h>
#include <cdt/study/parts/idx_pictures.h>
#include <cdt/study/parts/pictures.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>

namespace cdt::study {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

/// Files of a folder, decoded on request.
class FolderPictures : public data::Pictures {
 public:
  FolderPictures(image::ImageFolder folder, image::LoadOptions options)
      : folder_(std::move(folder)), options_(std::move(options)) {
    options_.skip_bad = true;  // the caller decides
  }

  std::vector<int64_t> shape() const override {
    return {options_.channels, options_.height, options_.width};
  }

  Tensor load(const std::vector<int64_t>& rows) const override {
    const std::lock_guard lock(mutex_);
    decode(rows);
    std::vector<Tensor> pixels;
    for (const int64_t row : rows) {
      const Kept& kept = kept_.at(row);
      if (!kept.pixels.defined()) throw InvalidArgument(kept.reason);
      pixels.push_back(kept.pixels);
    }
    return torch::stack(pixels);
  }

  std::vector<Unreadable> unreadable(const std::vector<int64_t>& rows) const override {
    const std::lock_guard lock(mutex_);
    decode(rows);
    std::vector<Unreadable> found;
    for (const int64_t row : rows) {
      if (!kept_.at(row).pixels.defined()) found.push_back({row, kept_.at(row).reason});
    }
    return found;
  }

 private:
  struct Kept {
    Tensor pixels;
    std::string reason;  ///< why there are no pixels
  };

  void decode(const std::vector<int64_t>& rows) const {
    std::vector<int64_t> fresh;
    for (const int64_t row : rows) {
      if (!kept_.contains(row)) fresh.push_back(row);
    }
    std::sort(fresh.begin(), fresh.end());
    fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
    if (fresh.empty()) return;
    const image::LoadedImages loaded = image::load_images(folder_, fresh, options_);
    for (size_t i = 0; i < loaded.rows.size(); ++i) {
      kept_[loaded.rows[i]].pixels = loaded.x[static_cast<int64_t>(i)];
    }
    std::map<fs::path, std::string> reasons;
    for (const image::SkippedFile& skipped : loaded.skipped) {
      reasons.emplace(skipped.path, skipped.reason);
    }
    for (const int64_t row : fresh) {
      const auto found = reasons.find(folder_.files[static_cast<size_t>(row)].path);
      if (found != reasons.end()) kept_[row].reason = found->second;
    }
  }

  image::ImageFolder folder_;
  image::LoadOptions options_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, Kept> kept_;
};

/// A subset of other pictures.
class SelectedPictures : public data::Pictures {
 public:
  SelectedPictures(std::shared_ptr<const data::Pictures> all, std::vector<int64_t> rows)
      : all_(std::move(all)), rows_(std::move(rows)) {}

  std::vector<int64_t> shape() const override { return all_->shape(); }
  Tensor load(const std::vector<int64_t>& rows) const override { return all_->load(of(rows)); }
  std::vector<Unreadable> unreadable(const std::vector<int64_t>& rows) const override {
    std::map<int64_t, std::string> reasons;
    for (Unreadable& each : all_->unreadable(of(rows))) {
      reasons[each.row] = std::move(each.reason);
    }
    std::vector<Unreadable> found;
    for (const int64_t row : rows) {
      const auto reason = reasons.find(rows_[static_cast<size_t>(row)]);
      if (reason != reasons.end()) found.push_back({row, reason->second});
    }
    return found;
  }

 private:
  std::vector<int64_t> of(const std::vector<int64_t>& rows) const {
    std::vector<int64_t> chosen;
    for (const int64_t row : rows) chosen.push_back(rows_[static_cast<size_t>(row)]);
    return chosen;
  }

  std::shared_ptr<const data::Pictures> all_;
  std::vector<int64_t> rows_;
};

data::Column text_column(const std::string& name, const std::vector<std::string>& texts) {
  data::Column column;
  column.name = name;
  column.type = data::ColumnType::kText;
  column.categories = texts;
  std::sort(column.categories.begin(), column.categories.end());
  column.categories.erase(std::unique(column.categories.begin(), column.categories.end()),
                          column.categories.end());
  for (const std::string& text : texts) {
    const auto found = std::lower_bound(column.categories.begin(), column.categories.end(), text);
    column.codes.push_back(static_cast<int32_t>(found - column.categories.begin()));
  }
  return column;
}

void number_rows(data::Table& table, size_t count) {
  table.lines.resize(count);
  std::iota(table.lines.begin(), table.lines.end(), int64_t{1});
}

image::LoadOptions load_options(const std::vector<int64_t>& shape,
                                const data::PictureOptions& options) {
  image::LoadOptions load;
  load.channels = shape[0];
  load.height = shape[1];
  load.width = shape[2];
  load.cache = options.cache;
  load.progress = options.progress;
  return load;
}

data::Table folder_table(const image::ImageFolder& folder, const std::vector<int64_t>& shape,
                         const data::PictureOptions& options) {
  data::Table table;
  table.source = folder.path.string();
  std::vector<std::string> names, classes;
  Checksum sum;
  for (const image::ImageFile& file : folder.files) {
    names.push_back(file.path.lexically_relative(folder.path).generic_string());
    if (!folder.classes.empty()) {
      classes.push_back(folder.classes[static_cast<size_t>(file.label)]);
    }
    std::error_code gone;  // reported when it is read
    sum.add(fmt::format("{}\n{}\n", names.back(), fs::file_size(file.path, gone)));
  }
  table.checksum = sum.text();
  table.columns.push_back(text_column(kPictureColumn, names));
  if (!classes.empty()) table.columns.push_back(text_column(kClassColumn, classes));
  number_rows(table, names.size());
  table.pictures = std::make_shared<FolderPictures>(folder, load_options(shape, options));
  return table;
}

bool begins_with(const fs::path& path, std::initializer_list<std::string_view> starts) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return false;  // do not wait for a pipe
  std::ifstream file(path, std::ios::binary);
  char bytes[4] = {};
  file.read(bytes, sizeof bytes);
  const std::string_view head(bytes, static_cast<size_t>(file.gcount()));
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return head.starts_with(start); });
}

constexpr std::string_view kIdx("\0\0\x08", 3), kGzip("\x1f\x8b"), kJpeg("\xff\xd8\xff"),
    kPng("\x89PNG");

/// Looks inside gzip files, since other formats are compressed, too.
bool is_idx(const fs::path& path) {
  if (!begins_with(path, {kGzip})) return begins_with(path, {kIdx});
  try {
    const image::IdxReader reader(path);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

void require_side(const std::optional<int64_t>& side) {
  CDT_REQUIRE(!side || (*side >= 1 && *side <= 4096),
              "size: expected a side of 1 to 4096 pixels, got ", *side);
}

/// With classes or without.
data::Table read_new_folder(const fs::path& path, const data::PictureOptions& options) {
  bool classes = false;
  if (folder_exists(path)) {
    std::error_code none;
    for (fs::directory_iterator it(path, none), end; !none && it != end; it.increment(none)) {
      classes = classes ||
                (folder_exists(it->path()) && !it->path().filename().string().starts_with('.'));
    }
  }
  return folder_table(classes ? image::list_images(path) : image::list_unlabelled(path),
                      options.shape, options);
}

data::Table read_folder(const data::Source& source) {
  const fs::path path(source.file);
  const data::PictureOptions& options = source.pictures;
  if (!options.shape.empty()) return read_new_folder(path, options);
  require_side(options.size);
  CDT_REQUIRE(folder_exists(path), path.string(),
              ": expected a folder with a folder of pictures for each class, or an IDX file, got "
              "one picture");
  const image::ImageFolder folder = image::list_images(path);
  CDT_REQUIRE(folder.classes.size() >= 2, path.string(),
              ": expected a folder of pictures for each of two classes or more, but there is only ",
              data::in_quotes(folder.classes[0]));
  const int64_t side = options.size.value_or(kUsualSide);
  return folder_table(folder, {options.grey ? 1 : 3, side, side}, options);
}

data::Table read_idx(const data::Source& source) {
  const data::PictureOptions& options = source.pictures;
  if (!options.shape.empty()) return read_new_idx_pictures(source.file, options.shape);
  require_side(options.size);
  return read_idx_pictures(source.file, options.size);
}

data::Formats picture_formats() {
  return {{.name = "pictures",
           .summary = "pictures: a folder with one folder for each class",
           .pictures = true,
           .matches =
               [](const std::string& file) {
                 std::error_code none;
                 return fs::is_directory(file, none) || begins_with(file, {kJpeg, kPng});
               },
           .read = read_folder},
          {.name = "IDX",
           .summary = "an IDX file with its labels beside it",
           .pictures = true,
           .matches = [](const std::string& file) { return is_idx(file); },
           .read = read_idx}};
}

}  // namespace

data::Formats formats() {
  data::Formats all = data::formats();
  for (data::Format& each : picture_formats()) all.push_back(std::move(each));
  return all;
}

bool holds_pictures(const std::string& file) {
  return file != "-" && data::format_of(file, formats()).pictures;
}

data::Table read_new_pictures(const std::string& file, const std::vector<int64_t>& shape) {
  CDT_REQUIRE(holds_pictures(file), file,
              ": expected pictures, as the run was trained on: a folder, a JPEG or PNG file, or an "
              "IDX file");
  data::Source source{.file = file};
  source.pictures.shape = shape;
  return data::read_table(source, picture_formats());
}

data::Table generated_pictures(int64_t count, uint64_t seed, int64_t side) {
  const image::GeneratedPictures made = image::make_pictures(count, seed, side);
  std::vector<Tensor> pixels;
  std::vector<std::string> names, classes;
  for (size_t i = 0; i < made.pictures.size(); ++i) {
    pixels.push_back(image::to_tensor(made.pictures[i], side, side));
    names.push_back(std::to_string(i + 1));
    classes.push_back(made.classes[static_cast<size_t>(made.labels[i])]);
  }
  data::Table table;
  table.source = "generated pictures";
  table.columns = {text_column(kPictureColumn, names), text_column(kClassColumn, classes)};
  table.checksum = checksum(fmt::format("generated {} {} {}", count, seed, side));
  number_rows(table, names.size());
  table.pictures = std::make_shared<data::TensorPictures>(torch::stack(pixels));
  return table;
}

data::Table select_rows(const data::Table& table, const std::vector<int64_t>& rows) {
  data::Table part;
  part.source = table.source;
  part.checksum = table.checksum;
  for (const int64_t row : rows) part.lines.push_back(table.lines[static_cast<size_t>(row)]);
  for (const data::Column& column : table.columns) {
    data::Column& chosen = part.columns.emplace_back();
    chosen.name = column.name;
    chosen.type = column.type;
    chosen.categories = column.categories;
    for (const int64_t row : rows) {
      const auto i = static_cast<size_t>(row);
      if (column.type == data::ColumnType::kText) {
        chosen.codes.push_back(column.codes[i]);
      } else {
        chosen.numbers.push_back(column.numbers[i]);
      }
    }
  }
  part.pictures = std::make_shared<SelectedPictures>(table.pictures, rows);
  return part;
}

data::Table read_table(const DataOptions& options) {
  return data::read_table(options, options.is_pictures ? picture_formats() : data::formats());
}

}  // namespace cdt::study
