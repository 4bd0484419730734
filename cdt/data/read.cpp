#include <cdt/data/numpy/arrays.h>
#include <cdt/data/read.h>
#include <cdt/data/rows/rows.h>

#include <algorithm>
#include <numeric>

namespace cdt::data {
namespace {

constexpr int64_t kPart = 8192;

void take_parts(const Table& all, const Format::Take& take) {
  for (int64_t first = 0; first < all.rows(); first += kPart) {
    std::vector<int64_t> rows(static_cast<size_t>(std::min(kPart, all.rows() - first)));
    std::iota(rows.begin(), rows.end(), first);
    take(take_rows(all, rows), all.rows());
  }
}

Format csv() {
  return {.name = "CSV",
          .summary = "a CSV file",
          .matches = [](const std::string&) { return true; },
          .read = [](const Source& source) { return read_csv(source.file, source.csv); },
          .read_parts =
              [](const Source& source, const Format::Take& take) {
                read_csv_in_parts(source.file, source.csv,
                                  [&](const Table& part) { take(part, 0); });
              }};
}

Format arrays() {
  return {
      .name = "NumPy",
      .summary = "NumPy arrays (.npy, .npz)",
      .arrays = true,
      .matches = holds_arrays,
      .read =
          [](const Source& source) { return read_arrays(source.file, source.labels, source.csv); },
      .read_parts =
          [](const Source& source, const Format::Take& take) {
            CsvOptions columns;  // a training file in CSV may have had more to say
            columns.types = source.csv.types;
            columns.keep = source.csv.keep;
            take_parts(read_arrays(source.file, source.labels, columns), take);
          }};
}

Format checked_format(const Source& source, const Formats& table) {
  Format format = format_of(source.file, table);
  CDT_REQUIRE(source.labels.empty() || format.arrays, source.file, ": expected arrays, to which ",
              source.labels, " has the labels, got ", format.summary);
  return format;
}

}  // namespace

Formats formats() { return {csv(), arrays()}; }

Format format_of(const std::string& file, const Formats& table) {
  CDT_REQUIRE(!table.empty(), "expected a table of formats, got an empty one");
  const auto found = std::find_if(table.rbegin(), table.rend(),
                                  [&](const Format& each) { return each.matches(file); });
  return found == table.rend() ? table.front() : *found;
}

std::string in_words(const Formats& table) {
  std::string text;
  for (size_t i = 0; i < table.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == table.size() ? ", or " : ", ") + table[i].summary;
  }
  return text;
}

Table read_table(const Source& source, const Formats& table) {
  return checked_format(source, table).read(source);
}

void read_in_parts(const Source& source, const Format::Take& take, const Formats& table) {
  const Format format = checked_format(source, table);
  if (format.read_parts) return format.read_parts(source, take);
  take_parts(format.read(source), take);
}

}  // namespace cdt::data
