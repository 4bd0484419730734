#include "cdt/data/dates.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "cdt/core/names.h"

namespace cdt::data {
namespace {

constexpr cdt::Names<DatePart, 5> kDatePartNames{{{"year", DatePart::kYear},
                                                  {"month", DatePart::kMonth},
                                                  {"weekday", DatePart::kWeekday},
                                                  {"day", DatePart::kDay},
                                                  {"hour", DatePart::kHour}}};

/// Reads a text from its front; what does not fit leaves it as it is.
class DateText {
 public:
  explicit DateText(std::string_view text) : left_(text) {}

  bool done() const { return left_.empty(); }
  bool take(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  /// Exactly so many digits.
  std::optional<int> number(size_t digits) {
    if (left_.size() < digits) return std::nullopt;
    int value = 0;
    for (const char c : left_.substr(0, digits)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = 10 * value + (c - '0');
    }
    left_.remove_prefix(digits);
    return value;
  }
  /// Any number of digits, one or more.
  bool skip_digits() {
    const size_t end = std::min(left_.find_first_not_of("0123456789"), left_.size());
    left_.remove_prefix(end);
    return end > 0;
  }

 private:
  std::string_view left_;
};

/// HH:MM, with seconds or not, as hours; nothing if it is no time.
std::optional<double> take_time(DateText& text) {
  const auto hour = text.number(2);
  if (!hour || *hour > 23 || !text.take(":")) return std::nullopt;
  const auto minute = text.number(2);
  if (!minute || *minute > 59) return std::nullopt;
  double hours = *hour + *minute / 60.0;
  if (!text.take(":")) return hours;
  const auto second = text.number(2);
  if (!second || *second > 60) return std::nullopt;  // 60: a leap second
  hours += *second / 3600.0;
  if (text.take(".") && !text.skip_digits()) return std::nullopt;
  return hours;
}

/// Z, UTC, +01:00, +0100 or +01; or nothing at all.
bool take_zone(DateText& text) {
  if (text.done() || text.take("Z") || text.take(" UTC") || text.take("UTC")) return true;
  text.take(" ");
  if (!text.take("+") && !text.take("-")) return false;
  const auto hours = text.number(2);
  if (!hours || *hours > 14) return false;
  if (text.done()) return true;
  text.take(":");
  const auto minutes = text.number(2);
  return minutes && *minutes < 60;
}

}  // namespace

std::optional<Date> parse_date(std::string_view bytes) {
  DateText text(bytes);
  const auto year = text.number(4);
  if (!year) return std::nullopt;
  const char* between = text.take("-") ? "-" : "/";
  if (between[0] == '/' && !text.take("/")) return std::nullopt;
  const auto month = text.number(2);
  if (!month || !text.take(between)) return std::nullopt;
  const auto day = text.number(2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day ymd{std::chrono::year(*year),
                                        std::chrono::month(static_cast<unsigned>(*month)),
                                        std::chrono::day(static_cast<unsigned>(*day))};
  if (!ymd.ok()) return std::nullopt;
  const std::chrono::sys_days days = ymd;
  Date date;
  date.year = *year;
  date.month = *month;
  date.weekday = static_cast<int>(std::chrono::weekday(days).iso_encoding());
  date.day = days.time_since_epoch().count();
  if (text.done()) return date;
  if (!text.take("T") && !text.take(" ")) return std::nullopt;
  const auto hour = take_time(text);
  if (!hour || !take_zone(text) || !text.done()) return std::nullopt;
  date.hour = *hour;
  return date;
}

bool holds_dates(const Column& column) {
  return column.type == ColumnType::kText && !column.categories.empty() &&
         std::all_of(column.categories.begin(), column.categories.end(),
                     [](const std::string& text) { return parse_date(text).has_value(); });
}

double part_of(const Date& date, DatePart part) {
  switch (part) {
    case DatePart::kYear:
      return date.year;
    case DatePart::kMonth:
      return date.month;
    case DatePart::kWeekday:
      return date.weekday;
    case DatePart::kDay:
      return static_cast<double>(date.day);
    case DatePart::kHour:
      return date.hour;
  }
  throw InvalidArgument("expected a part of a date");
}

bool is_cyclic(DatePart part) { return part == DatePart::kMonth || part == DatePart::kWeekday; }

std::vector<std::string> categories_of(DatePart part) {
  if (part == DatePart::kWeekday) return {"1", "2", "3", "4", "5", "6", "7"};
  CDT_REQUIRE(part == DatePart::kMonth, "expected a part of a date that is a category, but came ",
              to_string(part));
  return {"01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12"};
}

std::string to_string(DatePart part) { return cdt::name_of(kDatePartNames, part); }

DatePart parse_date_part(const std::string& name) {
  return cdt::parse_name(kDatePartNames, name, "a part of a date");
}

}  // namespace cdt::data
