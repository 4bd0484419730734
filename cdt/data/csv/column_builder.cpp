#include "cdt/data/csv/column_builder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "cdt/core/error.h"
#include "cdt/core/text/text.h"
#include "cdt/data/dates.h"

namespace cdt::data {
namespace {

/// Parses a number that prints as it is written: a plain decimal without superfluous zeros or
/// signs. It has at most 15 digits, so that the quotient of integers below is the nearest double.
bool parse_plain(std::string_view text, double& value) {
  constexpr size_t kDigits = std::numeric_limits<double>::digits10;
  static constexpr std::array kPowers{1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6, 1e7,
                                      1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
  const bool negative = text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > kDigits) return false;
  int64_t digits = 0;
  size_t i = 0;
  const auto read_digits = [&] {
    const size_t begin = i;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      digits = 10 * digits + (text[i] - '0');
    }
    return i - begin;
  };
  const size_t whole = read_digits();
  if (whole == 0 || (text[0] == '0' && whole > 1)) return false;
  size_t decimals = 0;
  if (i < text.size()) {
    if (text[i++] != '.') return false;
    decimals = read_digits();
    if (decimals == 0 || i < text.size() || text.back() == '0') return false;
  }
  value = static_cast<double>(digits);
  if (decimals > 0) value /= kPowers[decimals];
  if (negative) value = -value;
  return true;
}

/// Size of the cache of texts, used in columns with at least kManyCells cells.
constexpr size_t kRecent = 2048;
constexpr size_t kManyCells = 4096;

/// Index of the text among kRecent, hashing eight bytes at a time.
size_t place_of(std::string_view text) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  uint64_t hash = text.size();
  for (; text.size() > 8; text.remove_prefix(8)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    hash = (hash ^ word) * kMix;
    hash ^= hash >> 32;
  }
  uint64_t word = 0;
  std::memcpy(&word, text.data(), text.size());
  return ((hash ^ word) * kMix >> 32) % kRecent;
}

std::string_view print(double value, std::array<char, 64>& buffer) {
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return {buffer.data(), static_cast<size_t>(result.ptr - buffer.data())};
}

}  // namespace

MissingMarks::MissingMarks(std::vector<std::string> marks) : marks_(std::move(marks)) {
  for (const std::string& mark : marks_) {
    CDT_REQUIRE(is_utf8(mark), "expected marks of missing values in UTF-8, got other bytes");
    if (!mark.empty()) starts_[static_cast<unsigned char>(mark[0])] = true;
  }
}

bool MissingMarks::listed(std::string_view text) const {
  return std::find(marks_.begin(), marks_.end(), text) != marks_.end();
}

ColumnBuilder::ColumnBuilder(std::string name, Reading reading, const std::string& file,
                             const MissingMarks& marks)
    : reading_(std::move(reading)), forced_(reading_.type.has_value()), file_(file), marks_(marks) {
  column_.name = std::move(name);
  column_.type = reading_.type.value_or(ColumnType::kNumeric);
  column_.dates = reading_.dates;
}

bool ColumnBuilder::parse_cell(std::string_view text, double& value) const {
  const auto found = !forced_          ? parse_plain_number(text)
                     : reading_.format ? parse_number(text, *reading_.format)
                                       : parse_number(text, {});
  if (found) value = *found;
  return found.has_value();
}

void ColumnBuilder::add(std::string_view text, int64_t line) {
  if (column_.type == ColumnType::kText) return add_text(text, line);
  double value = std::numeric_limits<double>::quiet_NaN();
  const bool formatted = reading_.format.has_value();
  if (!marks_.contains(text) && (formatted || !parse_plain(text, value))) {
    if (!parse_cell(text, value)) {
      CDT_REQUIRE(!forced_, file_, ":", line, ": expected a number in column ",
                  in_quotes(column_.name), ", got ", in_quotes(text),
                  " (a missing value is an empty cell or NA)");
      become_text(text, line);
      return add_text(text, line);
    }
    if (std::isinf(value) && infinite_line_ == 0) {
      infinite_ = text;
      infinite_line_ = line;
    }
    if (is_rounded(text, value) && rounded_++ == 0) first_rounded_ = text;
    if (!forced_) {
      spelled_ += text;
      spellings_.push_back({column_.numbers.size(), spelled_.size()});
    }
  }
  column_.numbers.push_back(value);
}

void ColumnBuilder::reserve(size_t cells) {
  if (column_.type == ColumnType::kText) {
    column_.codes.reserve(cells);
  } else {
    column_.numbers.reserve(cells);
  }
}

void ColumnBuilder::add_text(std::string_view text, int64_t line) {
  if (marks_.contains(text)) {
    column_.codes.push_back(-1);
    return;
  }
  if (recent_.empty() && column_.codes.size() >= kManyCells) recent_.resize(kRecent);
  Recent* const recent = recent_.empty() ? nullptr : &recent_[place_of(text)];
  if (recent != nullptr && recent->text == text) {
    column_.codes.push_back(recent->code);
    return;
  }
  auto it = codes_.find(text);
  if (it == codes_.end()) {
    CDT_REQUIRE(is_utf8(text), file_, ":", line, ": expected UTF-8 text in column ",
                in_quotes(column_.name),
                ", got other bytes; convert the file, for example: ", "iconv -f latin1 -t utf-8");
    CDT_REQUIRE(codes_.size() < std::numeric_limits<int32_t>::max(), file_, ": column ",
                in_quotes(column_.name), " has more distinct values than can be counted");
    it = codes_.emplace(names_.emplace_back(text), static_cast<int32_t>(codes_.size())).first;
  }
  if (recent != nullptr) *recent = {it->first, it->second};
  column_.codes.push_back(it->second);
}

void ColumnBuilder::become_text(std::string_view text, int64_t line) {
  column_.type = ColumnType::kText;
  column_.not_numeric.emplace().line = line;
  column_.not_numeric->text = text;
  column_.codes.reserve(column_.numbers.size() + 1);
  std::array<char, 64> buffer;
  size_t begin = 0;
  auto spelling = spellings_.begin();
  for (size_t row = 0; row < column_.numbers.size(); ++row) {
    if (spelling != spellings_.end() && spelling->row == row) {
      add_text(std::string_view(spelled_).substr(begin, spelling->end - begin), line);
      begin = spelling->end;
      ++spelling;
    } else if (std::isnan(column_.numbers[row])) {
      column_.codes.push_back(-1);
    } else {
      add_text(print(column_.numbers[row], buffer), line);
    }
  }
  column_.numbers = {};
  spellings_ = {};
  spelled_ = {};
}

/// Counts the cells that would be numbers, parsing each distinct text once.
void ColumnBuilder::count_numbers() {
  std::vector<int64_t> cells(names_.size(), 0);
  for (const int32_t code : column_.codes) {
    if (code >= 0) ++cells[static_cast<size_t>(code)];
  }
  for (size_t code = 0; code < cells.size(); ++code) {
    NotNumeric& why = *column_.not_numeric;
    (parse_plain_number(names_[code]) ? why.numbers : why.others) += cells[code];
  }
}

void ColumnBuilder::keep_identity() {
  column_.warning = c10::str(rounded_, " whole numbers beyond 2^53, ", in_quotes(first_rounded_),
                             " first, are rounded to about 16 digits (--text ",
                             printable_name(column_.name), " keeps all)");
  std::unordered_map<double, std::string> known;
  size_t begin = 0;
  bool same = false;
  for (const Spelling& spelling : spellings_) {
    const std::string_view text = std::string_view(spelled_).substr(begin, spelling.end - begin);
    begin = spelling.end;
    const auto key = value_key(text);
    if (!key) continue;
    const auto [it, fresh] = known.emplace(column_.numbers[spelling.row], *key);
    same = same || (!fresh && it->second != *key);
  }
  if (!same) return;
  become_text(first_rounded_, 0);
  column_.not_numeric.reset();
  column_.warning.clear();
  column_.understood = c10::str("whole numbers beyond 2^53 (", in_quotes(first_rounded_),
                                "), which as numbers would not differ: taken as text");
}

Column ColumnBuilder::finish() {
  if (rounded_ > 0 && column_.type == ColumnType::kNumeric && infinite_line_ == 0) keep_identity();
  if (column_.type == ColumnType::kNumeric) {
    CDT_REQUIRE(infinite_line_ == 0, file_, ":", infinite_line_,
                ": expected finite numbers in column ", in_quotes(column_.name), ", got ",
                in_quotes(infinite_));
    return std::move(column_);
  }
  if (column_.not_numeric) count_numbers();
  // Codes so far are in order of appearance.
  std::vector<size_t> order(names_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return names_[a] < names_[b]; });
  std::vector<int32_t> rank(names_.size());
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<int32_t>(i);
  for (int32_t& code : column_.codes) {
    if (code >= 0) code = rank[static_cast<size_t>(code)];
  }
  column_.categories.reserve(names_.size());
  for (const size_t i : order) column_.categories.push_back(std::move(names_[i]));
  if (!forced_ && column_.not_numeric) understand(column_, reading_.decimal, reading_.comma_likely);
  return std::move(column_);
}

namespace {

/// Warns of a few cells that prevent a column from being formatted numbers or dates, like most of
/// its cells.
void warn_of_slips(Column& column, char decimal, bool comma_likely) {
  std::vector<int64_t> cells(column.categories.size(), 0);
  int64_t all = 0;
  for (const int32_t code : column.codes) {
    if (code < 0) continue;
    ++cells[static_cast<size_t>(code)];
    ++all;
  }
  const auto look = [&](const char* what, const auto& fits) {
    int64_t others = 0, number = 0;
    size_t first = 0, usual = 0;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (fits(i)) {
        usual = i;
        number += cells[i];
      } else {
        if (others == 0) first = i;
        others += cells[i];
      }
    }
    if (others == 0 || number < 2 * others || !column.warning.empty()) return;
    column.warning = c10::str("is text: ", number, " cells are ", what, " like ",
                              in_quotes(column.categories[usual]), ", ", others, " are not, ",
                              in_quotes(column.categories[first]),
                              " first (--missing names marks of missing values)");
  };
  std::unordered_map<std::string, int64_t> forms;
  std::vector<std::optional<std::string>> form;
  for (size_t i = 0; i < cells.size(); ++i) {
    form.push_back(surroundings(column.categories[i]));
    if (form[i]) forms[*form[i]] += cells[i];
  }
  const auto usual = std::ranges::max_element(
      forms, {}, [](const auto& each) { return std::pair(each.second, each.first); });
  if (usual != forms.end() && 3 * usual->second >= 2 * all) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (form[i] == usual->first) texts.push_back(column.categories[i]);
    }
    if (find_format(texts, decimal, comma_likely).format) {
      look("numbers", [&](size_t i) { return form[i] == usual->first; });
    }
  }
  for (const DateOrder order : {DateOrder::kDayMonth, DateOrder::kMonthDay}) {
    look("dates", [&](size_t i) { return parse_date(column.categories[i], order).has_value(); });
  }
}

}  // namespace

void understand(Column& column, char decimal, bool comma_likely) {
  if (column.type != ColumnType::kText || column.categories.empty()) return;
  const FormatSearch found = find_format(column.categories, decimal, comma_likely);
  if (!found.doubt.empty()) column.warning = "is text: " + found.doubt;
  if (!found.format) {
    if (const std::string open = open_dates(column); !open.empty()) {
      column.warning = "is text: " + open;
    } else if (!holds_dates(column)) {
      warn_of_slips(column, decimal, comma_likely);
    }
    return;
  }
  std::vector<double> values;
  values.reserve(column.categories.size());
  for (const std::string& text : column.categories) {
    values.push_back(parse_number(text, *found.format).value_or(NAN));
    if (!std::isfinite(values.back())) return;
  }
  std::vector<double> numbers;
  numbers.reserve(column.codes.size());
  for (const int32_t code : column.codes) {
    numbers.push_back(code < 0 ? NAN : values[static_cast<size_t>(code)]);
  }
  column.understood =
      c10::str(describe(*found.format), ": ", in_quotes(column.categories[0]), " is ", values[0],
               " (--text ", printable_name(column.name), " keeps the text)");
  column.type = ColumnType::kNumeric;
  column.numbers = std::move(numbers);
  column.format = found.format;
  column.codes = {};
  column.categories = {};
  column.not_numeric.reset();
}

}  // namespace cdt::data
