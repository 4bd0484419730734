#include "cdt/data/numpy/arrays.h"

#include <cdt/core/io/checksum.h>
#include <cdt/core/npy.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>

#include "cdt/core/error.h"
#include "cdt/data/csv/column_builder.h"
#include "cdt/data/csv/csv_rows.h"
#include "cdt/data/numpy/npz.h"

namespace cdt::data {
namespace {

constexpr const char* kInput = "x";
constexpr const char* kLabel = "y";
constexpr std::string_view kNpyStart = "\x93NUMPY", kZipStart = "PK\x03\x04";
constexpr std::string_view kArchive = ".npz", kNamed = ".npz:";

/// The name after FILE.npz:, if there is one.
std::string name_in(const std::string& file) { return file.substr(archive_of(file).size()); }

bool begins_with(const std::string& path, std::string_view start) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;  // do not wait for a pipe
  std::ifstream file(path, std::ios::binary);
  std::string head(start.size(), '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return file && head == start;
}

/// An array with one or two dimensions, as a matrix.
struct Matrix {
  std::string file;
  Bytes bytes;
  NpyLayout layout;
  int64_t rows = 0, columns = 0;
};

Matrix to_matrix(Bytes bytes, const std::string& file, const char* wanted) {
  Matrix matrix{file, std::move(bytes), {}, 0, 0};
  matrix.layout = npy_layout(matrix.bytes.view, file);
  const auto& shape = matrix.layout.shape;
  CDT_REQUIRE(shape.size() == 1 || shape.size() == 2, file, ": expected ", wanted, ", got shape ",
              c10::IntArrayRef(shape));
  matrix.rows = shape[0];
  matrix.columns = shape.size() == 2 ? shape[1] : 1;
  CDT_REQUIRE(matrix.rows > 0 && matrix.columns > 0, file, ": expected ", wanted,
              " with entries, got shape ", c10::IntArrayRef(shape));
  CDT_REQUIRE(matrix.columns <= static_cast<int64_t>(CsvRows::kMostFields), file,
              ": expected at most ", CsvRows::kMostFields, " columns, got shape ",
              c10::IntArrayRef(shape));
  return matrix;
}

Matrix read_matrix(const std::string& file, const char* usual, const char* wanted) {
  const std::string path = archive_of(file);
  Bytes bytes = map_file(path);
  if (!bytes.view.starts_with("PK")) {
    CDT_REQUIRE(name_in(file).empty(), path, ": expected an .npz archive, got another file");
    return to_matrix(std::move(bytes), file, wanted);
  }
  const Npz archive(std::move(bytes), path);
  const std::string name = name_in(file).empty() ? usual : name_in(file).substr(1);
  return to_matrix(archive.array(name), path + ":" + name, wanted);
}

bool has_own_labels(const std::string& inputs) {
  if (!name_in(inputs).empty()) return false;
  Bytes bytes = map_file(inputs);
  return bytes.view.starts_with("PK") && Npz(std::move(bytes), inputs).has(kLabel);
}

template <class T>
double read_number(const char* place) {
  T value;
  std::memcpy(&value, place, sizeof value);  // arrays in archives may be unaligned
  return static_cast<double>(value);
}

/// Any byte but 0 is true; other values of a C++ bool are undefined.
double read_bool(const char* place) { return *place == 0 ? 0 : 1; }

double (*reader_of(torch::ScalarType type))(const char*) {
  switch (type) {
    case torch::kFloat32:
      return read_number<float>;
    case torch::kFloat64:
      return read_number<double>;
    case torch::kFloat16:
      return read_number<c10::Half>;
    case torch::kInt8:
      return read_number<int8_t>;
    case torch::kInt16:
      return read_number<int16_t>;
    case torch::kInt32:
      return read_number<int32_t>;
    case torch::kInt64:
      return read_number<int64_t>;
    case torch::kUInt8:
      return read_number<uint8_t>;
    case torch::kBool:
      return read_bool;
    default:
      throw std::logic_error("a dtype that npy_layout does not let pass");
  }
}

Numbers column_of(const Matrix& matrix, int64_t column) {
  const auto width = static_cast<int64_t>(c10::elementSize(matrix.layout.dtype));
  const bool by_column = matrix.layout.fortran_order;
  const int64_t first = (by_column ? column * matrix.rows : column) * width;
  const int64_t stride = (by_column ? 1 : matrix.columns) * width;
  return {matrix.bytes.memory,
          matrix.bytes.view.data() + static_cast<int64_t>(matrix.layout.offset) + first,
          static_cast<size_t>(matrix.rows), stride, reader_of(matrix.layout.dtype)};
}

/// In storage order, once for all columns.
void require_no_infinity(const Matrix& matrix) {
  if (!c10::isFloatingType(matrix.layout.dtype)) return;
  const auto read = reader_of(matrix.layout.dtype);
  const auto width = c10::elementSize(matrix.layout.dtype);
  const std::string_view data = matrix.bytes.view.substr(matrix.layout.offset);
  for (size_t at = 0; at < data.size(); at += width) {
    const double value = read(data.data() + at);
    if (!std::isinf(value)) continue;
    const auto entry = static_cast<int64_t>(at / width);
    const bool by_column = matrix.layout.fortran_order;
    throw InvalidArgument(
        c10::str(matrix.file, ": expected finite numbers, or NaN for missing ones, got ", value,
                 " in row ", 1 + (by_column ? entry % matrix.rows : entry / matrix.columns),
                 ", column ", 1 + (by_column ? entry / matrix.rows : entry % matrix.columns)));
  }
}

/// A column of integers that float64 cannot represent, typed by its content as if read from a file.
/// Empty if it represents them all.
std::optional<Column> as_written(const Matrix& matrix, int64_t column, const std::string& name,
                                 std::optional<ColumnType> type, const MissingMarks& marks) {
  if (matrix.layout.dtype != torch::kInt64) return std::nullopt;
  const auto at = [&](int64_t row) {
    const int64_t entry =
        matrix.layout.fortran_order ? column * matrix.rows + row : row * matrix.columns + column;
    int64_t value = 0;
    std::memcpy(&value, matrix.bytes.view.data() + matrix.layout.offset + entry * 8, sizeof value);
    return value;
  };
  constexpr int64_t kHeld = int64_t{1} << 53;
  bool rounded = false;
  for (int64_t row = 0; row < matrix.rows && !rounded; ++row) {
    rounded = at(row) > kHeld || at(row) < -kHeld;
  }
  if (!rounded) return std::nullopt;
  ColumnBuilder builder(name, {.type = type}, matrix.file, marks);
  for (int64_t row = 0; row < matrix.rows; ++row) builder.add(std::to_string(at(row)), row + 1);
  return builder.finish();
}

/// Makes each distinct number a category.
Column as_text(Column column, const std::string& file, const MissingMarks& marks) {
  ColumnBuilder builder(column.name, {.type = ColumnType::kText}, file, marks);
  for (size_t i = 0; i < column.numbers.size(); ++i) {
    const double value = column.numbers[i];
    builder.add(std::isnan(value) ? "" : fmt::format("{}", value == 0 ? 0.0 : value),
                static_cast<int64_t>(i) + 1);
  }
  return builder.finish();
}

void require_columns(const Table& table, const CsvOptions& options) {
  for (const std::string& name : options.drop) static_cast<void>(table.at(name));
  if (!options.keep.empty()) return;
  for (const auto& [name, type] : options.types) static_cast<void>(table.at(name));
}

}  // namespace

bool holds_arrays(const std::string& file) {
  return file.ends_with(".npy") || file.ends_with(kArchive) ||
         file.find(kNamed) != std::string::npos || begins_with(file, kNpyStart) ||
         begins_with(file, kZipStart);
}

std::string archive_of(const std::string& file) {
  const size_t at = file.rfind(kNamed);
  return at == std::string::npos ? file : file.substr(0, at + kArchive.size());
}

Table read_arrays(const std::string& inputs, const std::string& labels, const CsvOptions& options) {
  CDT_REQUIRE(options.header, inputs, ": no-header is for CSV files; arrays have none");
  CDT_REQUIRE(options.missing_marks == CsvOptions().missing_marks, inputs,
              ": missing is for CSV files; in arrays NaN is a missing value");
  Table table;
  table.source = inputs;
  const MissingMarks marks({});
  Checksum sum;
  const auto add = [&](const Matrix& matrix, const std::string& name, bool numbered) {
    require_no_infinity(matrix);
    const auto& layout = matrix.layout;
    sum.add(c10::str(layout.dtype, c10::IntArrayRef(layout.shape), layout.fortran_order));
    sum.add(matrix.bytes.view.substr(layout.offset));
    for (int64_t j = 0; j < matrix.columns; ++j) {
      Column& column = table.columns.emplace_back();
      column.name = numbered ? name + std::to_string(j + 1) : name;
      const auto type = options.types.find(column.name);
      const auto wanted = type == options.types.end() ? std::nullopt : std::optional(type->second);
      if (auto exact = as_written(matrix, j, column.name, wanted, marks)) {
        column = std::move(*exact);
      } else {
        column.numbers = column_of(matrix, j);
      }
    }
  };
  const Matrix x = read_matrix(inputs, kInput, "inputs [rows, features]");
  add(x, kInput, true);
  table.inputs = x.columns;
  table.lines.resize(static_cast<size_t>(x.rows));
  std::iota(table.lines.begin(), table.lines.end(), int64_t{1});
  const std::string from = labels.empty() && has_own_labels(inputs) ? inputs : labels;
  if (!from.empty()) {
    const Matrix y = read_matrix(from, kLabel, "labels [rows] or [rows, targets]");
    CDT_REQUIRE(y.rows == x.rows, y.file, ": expected labels of ", x.rows, " rows, as many as ",
                x.file, " has, got ", y.rows);
    add(y, kLabel, y.columns > 1);
  }
  table.checksum = sum.text();
  require_columns(table, options);
  std::erase_if(table.columns, [&](const Column& column) {
    return contains(options.drop, column.name) ||
           (!options.keep.empty() && !contains(options.keep, column.name));
  });
  for (Column& column : table.columns) {
    const auto type = options.types.find(column.name);
    if (type != options.types.end() && type->second == ColumnType::kText &&
        column.type == ColumnType::kNumeric) {
      column = as_text(std::move(column), table.source, marks);
    }
  }
  return table;
}

std::vector<std::string> label_columns(const Table& table) {
  std::vector<std::string> names;
  for (const Column& column : table.columns) {
    if (column.name.starts_with(kLabel)) names.push_back(column.name);
  }
  return names;
}

}  // namespace cdt::data
