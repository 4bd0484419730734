#include <cdt/core/error.h>
#include <cdt/train/history.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace cdt::train {
namespace {

constexpr std::string_view kHeader =
    "step,lr,train_loss,val_loss,augment_norm,linearization_error,refreshed,rejected,seconds,"
    "objective,decay,freedom";
/// Older files, written before the objective and before paths were recorded, have fewer columns.
constexpr std::array<size_t, 3> kColumns{12, 10, 9};

/// The first columns of the header.
std::string_view header_of(size_t columns) {
  size_t end = 0;
  for (size_t i = 0; i < columns; ++i) end = std::min(kHeader.find(',', end), kHeader.size()) + 1;
  return kHeader.substr(0, end - 1);
}

/// The shortest digits that parse to the same number.
std::string cell(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

double number(const std::string& text) {
  if (text.empty()) return kUnknown;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  CDT_REQUIRE(*end == '\0', "history: expected a number, got '", text, "'");
  return value;
}

int64_t whole(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  CDT_REQUIRE(error == std::errc() && end == text.data() + text.size() && value >= 0,
              "history: expected a whole number, got '", text, "'");
  return value;
}

}  // namespace

std::string to_csv(const std::vector<StepRecord>& history) {
  std::string text = std::string(kHeader) + "\n";
  for (const StepRecord& row : history) {
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{:.6f},{},{},{}\n", row.step, cell(row.learning_rate),
                    cell(row.train_loss), cell(row.val_loss), cell(row.augment_norm),
                    cell(row.linearization_error), row.refreshed, row.rejected, row.seconds,
                    cell(row.objective), cell(row.decay), cell(row.freedom));
  }
  return text;
}

std::vector<StepRecord> parse_history(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const auto* known = std::ranges::find(kColumns, line, header_of);
  CDT_REQUIRE(known != kColumns.end(), "history: expected the header '", kHeader, "', got '", line,
              "'");
  const size_t columns = *known;
  std::vector<StepRecord> history;
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;
    std::istringstream row(line + ",");
    for (std::string text; std::getline(row, text, ',');) cells.push_back(text);
    CDT_REQUIRE(cells.size() == columns, "history: expected ", columns, " cells, got '", line, "'");
    StepRecord record;
    record.step = whole(cells[0]);
    record.learning_rate = number(cells[1]);
    record.train_loss = number(cells[2]);
    record.val_loss = number(cells[3]);
    record.augment_norm = number(cells[4]);
    record.linearization_error = number(cells[5]);
    record.refreshed = whole(cells[6]);
    record.rejected = whole(cells[7]);
    record.seconds = number(cells[8]);
    if (columns > 9) record.objective = number(cells[9]);
    if (columns > 10) {
      record.decay = number(cells[10]);
      record.freedom = number(cells[11]);
    }
    history.push_back(record);
  }
  return history;
}

}  // namespace cdt::train
