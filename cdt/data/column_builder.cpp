#include "cdt/data/column_builder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "cdt/core/error.h"

namespace cdt::data {
namespace {

/// Reads the whole of `text` as a number, infinite ones included. NaN is no number.
bool parse_number(std::string_view text, double& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error == std::errc::invalid_argument) return false;
  // from_chars does not say whether a number is too large or too small.
  if (error == std::errc::result_out_of_range) {
    value = std::strtod(std::string(text).c_str(), nullptr);
  }
  return !std::isnan(value);
}

/// Whether printing the number gives `text` again: plain decimals of at most 15 digits without
/// superfluous zeros or signs.
bool prints_as_written(std::string_view text) {
  constexpr size_t kDigits = std::numeric_limits<double>::digits10;
  if (text[0] == '-') text.remove_prefix(1);
  if (text.empty() || text.size() > kDigits) return false;
  size_t i = 0;
  const auto skip_digits = [&] {
    const size_t begin = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i > begin;
  };
  if (!skip_digits() || (text[0] == '0' && i > 1)) return false;
  if (i == text.size()) return true;
  if (text[i++] != '.') return false;
  return skip_digits() && i == text.size() && text.back() != '0';
}

std::string_view print(double value, std::array<char, 64>& buffer) {
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return {buffer.data(), static_cast<size_t>(result.ptr - buffer.data())};
}

}  // namespace

MissingMarks::MissingMarks(std::vector<std::string> marks) : marks_(std::move(marks)) {
  for (const std::string& mark : marks_) {
    CDT_REQUIRE(is_utf8(mark), "expected marks of missing values in UTF-8, but came other bytes");
    if (!mark.empty()) starts_[static_cast<unsigned char>(mark[0])] = true;
  }
}

bool MissingMarks::listed(std::string_view text) const {
  return std::find(marks_.begin(), marks_.end(), text) != marks_.end();
}

ColumnBuilder::ColumnBuilder(std::string name, std::optional<ColumnType> type,
                             const std::string& file, const MissingMarks& marks)
    : forced_(type.has_value()), file_(file), marks_(marks) {
  column_.name = std::move(name);
  column_.type = type.value_or(ColumnType::kNumeric);
}

void ColumnBuilder::add(std::string_view text, int64_t line) {
  if (column_.type == ColumnType::kText) return add_text(text, line);
  double value = std::numeric_limits<double>::quiet_NaN();
  if (!marks_.contains(text)) {
    if (!parse_number(text, value)) {
      CDT_REQUIRE(!forced_, file_, ":", line, ": expected a number in column ",
                  in_quotes(column_.name), ", but came ", in_quotes(text));
      become_text(line);
      return add_text(text, line);
    }
    if (std::isinf(value) && infinite_line_ == 0) {
      infinite_ = text;
      infinite_line_ = line;
    }
    if (!forced_ && !prints_as_written(text)) {
      spelled_ += text;
      spellings_.push_back({column_.numbers.size(), spelled_.size()});
    }
  }
  column_.numbers.push_back(value);
}

void ColumnBuilder::add_text(std::string_view text, int64_t line) {
  if (marks_.contains(text)) {
    column_.codes.push_back(-1);
    return;
  }
  auto it = codes_.find(text);
  if (it == codes_.end()) {
    CDT_REQUIRE(is_utf8(text), file_, ":", line, ": expected UTF-8 text in column ",
                in_quotes(column_.name), ", but came other bytes; convert the file, for example: ",
                "iconv -f latin1 -t utf-8");
    CDT_REQUIRE(codes_.size() < std::numeric_limits<int32_t>::max(), file_, ": column ",
                in_quotes(column_.name), " has more distinct values than can be counted");
    it = codes_.emplace(text, static_cast<int32_t>(codes_.size())).first;
  }
  column_.codes.push_back(it->second);
}

void ColumnBuilder::become_text(int64_t line) {
  column_.type = ColumnType::kText;
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

Column ColumnBuilder::finish() {
  if (column_.type == ColumnType::kNumeric) {
    CDT_REQUIRE(infinite_line_ == 0, file_, ":", infinite_line_,
                ": expected finite numbers in column ", in_quotes(column_.name), ", but came ",
                in_quotes(infinite_));
    return std::move(column_);
  }
  // Codes count in order of appearance so far.
  std::vector<std::string> names(codes_.size());
  for (const auto& [name, code] : codes_) names[static_cast<size_t>(code)] = name;
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return names[a] < names[b]; });
  std::vector<int32_t> rank(names.size());
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<int32_t>(i);
  for (int32_t& code : column_.codes) {
    if (code >= 0) code = rank[static_cast<size_t>(code)];
  }
  column_.categories.reserve(names.size());
  for (const size_t i : order) column_.categories.push_back(std::move(names[i]));
  return std::move(column_);
}

bool is_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(bytes[k]); };
    const unsigned char lead = byte(i);
    const size_t length = lead < 0x80             ? 1
                          : (lead & 0xe0) == 0xc0 ? 2
                          : (lead & 0xf0) == 0xe0 ? 3
                          : (lead & 0xf8) == 0xf0 ? 4
                                                  : 0;
    if (length == 0 || i + length > bytes.size()) return false;
    uint32_t point = length == 1 ? lead : lead & (0xffu >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      point = point << 6 | (byte(i + k) & 0x3f);
    }
    // Neither longer than needed, nor half of a UTF-16 pair, nor beyond Unicode.
    constexpr std::array<uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
    if (point < kSmallest[length] || (point >= 0xd800 && point < 0xe000) || point > 0x10ffff) {
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace cdt::data
