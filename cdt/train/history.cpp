#include <cdt/core/error.h>
#include <cdt/train/history.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sstream>

namespace cdt::train {
namespace {

constexpr const char* kHeader =
    "step,lr,train_loss,val_loss,augment_norm,linearization_error,refreshed,rejected,seconds,"
    "objective";
constexpr size_t kColumns = 10;
/// Files of before the objective was recorded.
constexpr const char* kOldHeader =
    "step,lr,train_loss,val_loss,augment_norm,linearization_error,refreshed,rejected,seconds";

/// The shortest digits that give the same number again.
std::string cell(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

double number(const std::string& text) {
  if (text.empty()) return kUnknown;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  CDT_REQUIRE(*end == '\0', "history: expected a number, but came '", text, "'");
  return value;
}

int64_t whole(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  CDT_REQUIRE(error == std::errc() && end == text.data() + text.size() && value >= 0,
              "history: expected a whole number, but came '", text, "'");
  return value;
}

}  // namespace

std::string to_csv(const std::vector<StepRecord>& history) {
  std::string text = std::string(kHeader) + "\n";
  for (const StepRecord& row : history) {
    text += fmt::format("{},{},{},{},{},{},{},{},{:.6f},{}\n", row.step, cell(row.learning_rate),
                        cell(row.train_loss), cell(row.val_loss), cell(row.augment_norm),
                        cell(row.linearization_error), row.refreshed, row.rejected, row.seconds,
                        cell(row.objective));
  }
  return text;
}

std::vector<StepRecord> parse_history(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  CDT_REQUIRE(std::getline(lines, line) && (line == kHeader || line == kOldHeader),
              "history: expected the header '", kHeader, "', but came '", line, "'");
  const size_t columns = line == kHeader ? kColumns : kColumns - 1;
  std::vector<StepRecord> history;
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;
    std::istringstream row(line + ",");
    for (std::string text; std::getline(row, text, ',');) cells.push_back(text);
    CDT_REQUIRE(cells.size() == columns, "history: expected ", columns, " cells, but came '", line,
                "'");
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
    if (columns == kColumns) record.objective = number(cells[9]);
    history.push_back(record);
  }
  return history;
}

}  // namespace cdt::train
