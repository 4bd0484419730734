#include "cdt/data/dates.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "cdt/core/text/names.h"

namespace cdt::data {
namespace {

constexpr cdt::Names<DatePart, 5> kDatePartNames{{{"year", DatePart::kYear},
                                                  {"month", DatePart::kMonth},
                                                  {"weekday", DatePart::kWeekday},
                                                  {"day", DatePart::kDay},
                                                  {"hour", DatePart::kHour}}};

constexpr cdt::Names<DateOrder, 3> kDateOrderNames{{{"day-month", DateOrder::kDayMonth},
                                                    {"month-day", DateOrder::kMonthDay},
                                                    {"year-first", DateOrder::kYearFirst}}};

/// Parses a text from its front; what does not match is left unchanged.
class DateText {
 public:
  explicit DateText(std::string_view text) : left_(text) {}

  bool done() const { return left_.empty(); }
  bool take(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  /// Exactly this many digits.
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
  /// One or more digits after a point, as a fraction.
  std::optional<double> fraction() {
    const size_t end = std::min(left_.find_first_not_of("0123456789"), left_.size());
    if (end == 0) return std::nullopt;
    double value = 0;
    for (size_t i = end; i-- > 0;) value = (value + (left_[i] - '0')) / 10;
    left_.remove_prefix(end);
    return value;
  }
  /// A word in any case, not followed by a letter.
  bool take_word(std::string_view word) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    if (left_.size() < word.size() || (left_.size() > word.size() && letter(left_[word.size()])))
      return false;
    for (size_t i = 0; i < word.size(); ++i) {
      if ((left_[i] | 0x20) != (word[i] | 0x20)) return false;
    }
    left_.remove_prefix(word.size());
    return true;
  }

 private:
  std::string_view left_;
};

/// Time of day in hours, and in seconds with fractions.
struct Clock {
  double hours = 0;
  double seconds = 0;
};

/// HH:MM, optionally with seconds; empty if it is not a time. `loose`: also H:MM, and AM or PM.
std::optional<Clock> take_time(DateText& text, bool loose) {
  auto hour = text.number(2);
  if (!hour && loose) hour = text.number(1);
  if (!hour || *hour > 23 || !text.take(":")) return std::nullopt;
  const auto minute = text.number(2);
  if (!minute || *minute > 59) return std::nullopt;
  int seconds = 0;
  double part = 0;
  if (text.take(":")) {
    const auto second = text.number(2);
    if (!second || *second > 60) return std::nullopt;  // 60: a leap second
    seconds = *second;
    if (text.take(".")) {
      const auto fraction = text.fraction();
      if (!fraction) return std::nullopt;
      part = *fraction;
    }
  }
  if (loose) {
    text.take(" ");
    const bool morning = text.take("AM") || text.take("am");
    const bool evening = !morning && (text.take("PM") || text.take("pm"));
    if ((morning || evening) && (*hour < 1 || *hour > 12)) return std::nullopt;
    if (morning || evening) *hour = *hour % 12 + (evening ? 12 : 0);
  }
  return Clock{*hour + *minute / 60.0 + seconds / 3600.0,
               3600.0 * *hour + 60.0 * *minute + seconds + part};
}

/// Z, UTC, +01:00, +0100 or +01, in seconds east of UTC; an empty text means UTC.
std::optional<int> take_zone(DateText& text) {
  if (text.done() || text.take("Z") || text.take(" UTC") || text.take("UTC")) return 0;
  text.take(" ");
  const bool east = text.take("+");
  if (!east && !text.take("-")) return std::nullopt;
  const auto hours = text.number(2);
  if (!hours || *hours > 14) return std::nullopt;
  int seconds = 3600 * *hours;
  if (!text.done()) {
    text.take(":");
    const auto minutes = text.number(2);
    if (!minutes || *minutes > 59) return std::nullopt;
    seconds += 60 * *minutes;
  }
  return east ? seconds : -seconds;
}

/// A day, and whether its notation also allows an informal time.
struct Day {
  std::chrono::year_month_day ymd;
  bool loose = false;
};

std::optional<Day> day_of(int year, int month, int day, bool loose) {
  const std::chrono::year_month_day ymd{std::chrono::year(year),
                                        std::chrono::month(static_cast<unsigned>(month)),
                                        std::chrono::day(static_cast<unsigned>(day))};
  if (!ymd.ok()) return std::nullopt;
  return Day{ymd, loose};
}

std::optional<Day> take_iso(DateText& text) {
  const auto year = text.number(4);
  if (!year) return std::nullopt;
  const char* between = text.take("-") ? "-" : "/";
  if (between[0] == '/' && !text.take("/")) return std::nullopt;
  const auto month = text.number(2);
  if (!month || !text.take(between)) return std::nullopt;
  const auto day = text.number(2);
  if (!day) return std::nullopt;
  return day_of(*year, *month, *day, false);
}

std::optional<int> one_or_two_digits(DateText& text) {
  const auto two = text.number(2);
  return two ? two : text.number(1);
}

/// Four digits, or two: 69 is 1969, and 68 is 2068, as in POSIX.
std::optional<int> take_year(DateText& text) {
  if (const auto year = text.number(4)) return year;
  const auto short_year = text.number(2);
  if (!short_year) return std::nullopt;
  return *short_year + (*short_year < 69 ? 2000 : 1900);
}

/// Jan, January, JAN.
std::optional<int> take_month_name(DateText& text) {
  constexpr std::array kMonths{"January",   "February", "March",    "April",
                               "May",       "June",     "July",     "August",
                               "September", "October",  "November", "December"};
  for (size_t i = 0; i < kMonths.size(); ++i) {
    const std::string_view name = kMonths[i];
    if (text.take_word(name) || text.take_word(name.substr(0, 3))) return static_cast<int>(i) + 1;
  }
  return std::nullopt;
}

/// 29 Feb 2024, 29-Feb-2024, 29. February 2024; Feb 29, 2024.
std::optional<Day> take_named(DateText& text) {
  const auto between = [&] { return text.take("-") || text.take("/") || text.take(" "); };
  if (const auto month = take_month_name(text)) {
    text.take(".");
    if (!between()) return std::nullopt;
    const auto day = one_or_two_digits(text);
    text.take(",");
    if (!day || !between()) return std::nullopt;
    const auto year = text.number(4);
    return year ? day_of(*year, *month, *day, true) : std::nullopt;
  }
  const auto day = one_or_two_digits(text);
  if (!day) return std::nullopt;
  text.take(".");
  if (!between()) return std::nullopt;
  const auto month = take_month_name(text);
  if (!month) return std::nullopt;
  text.take(".");
  text.take(",");
  if (!between()) return std::nullopt;
  const auto year = take_year(text);
  return year ? day_of(*year, *month, *day, true) : std::nullopt;
}

/// 29.02.2024, 29/02/2024, 29-02-2024; month first is not allowed with points.
std::optional<Day> take_ordered(DateText& text, DateOrder order) {
  const auto first = one_or_two_digits(text);
  if (!first) return std::nullopt;
  const char* between = text.take(".") ? "." : text.take("/") ? "/" : "-";
  if (between[0] == '-' && !text.take("-")) return std::nullopt;
  if (between[0] == '.') text.take(" ");
  const auto second = one_or_two_digits(text);
  if (!second || !text.take(between)) return std::nullopt;
  if (between[0] == '.') text.take(" ");
  const auto year = take_year(text);
  if (!year) return std::nullopt;
  const bool month_first = order == DateOrder::kMonthDay;
  if (month_first && between[0] == '.') return std::nullopt;
  return month_first ? day_of(*year, *first, *second, true) : day_of(*year, *second, *first, true);
}

}  // namespace

std::optional<Date> parse_date(std::string_view bytes, DateOrder order) {
  std::optional<Day> found;
  DateText text(bytes);
  for (const auto& take : {take_iso, take_named}) {
    if (found) break;
    text = DateText(bytes);
    found = take(text);
  }
  if (!found && order != DateOrder::kYearFirst) {
    text = DateText(bytes);
    found = take_ordered(text, order);
  }
  if (!found) return std::nullopt;
  const std::chrono::sys_days days = found->ymd;
  Date date;
  date.year = static_cast<int>(found->ymd.year());
  date.month = static_cast<int>(static_cast<unsigned>(found->ymd.month()));
  date.weekday = static_cast<int>(std::chrono::weekday(days).iso_encoding());
  date.day = days.time_since_epoch().count();
  constexpr double kSecondsADay = 86400;
  date.instant = kSecondsADay * static_cast<double>(date.day);
  if (text.done()) return date;
  if (found->loose) text.take(",");
  if (!text.take("T") && !text.take(" ")) return std::nullopt;
  const auto time = take_time(text, found->loose);
  if (!time) return std::nullopt;
  const auto zone = take_zone(text);
  if (!zone || !text.done()) return std::nullopt;
  date.hour = time->hours;
  date.instant += time->seconds - *zone;
  return date;
}

namespace {

/// Whether all texts are dates in this order.
bool all_dates(const Column& column, DateOrder order) {
  return column.type == ColumnType::kText && !column.categories.empty() &&
         std::all_of(column.categories.begin(), column.categories.end(),
                     [&](const std::string& text) { return parse_date(text, order).has_value(); });
}

/// For texts that are dates in both orders, the first that is a different day in each.
const std::string* open_text(const Column& column) {
  for (const std::string& text : column.categories) {
    if (parse_date(text, DateOrder::kDayMonth)->day != parse_date(text, DateOrder::kMonthDay)->day)
      return &text;
  }
  return nullptr;
}

}  // namespace

std::optional<DateOrder> date_order(const Column& column) {
  if (all_dates(column, DateOrder::kYearFirst)) return DateOrder::kYearFirst;
  const bool day_first = all_dates(column, DateOrder::kDayMonth);
  const bool month_first = all_dates(column, DateOrder::kMonthDay);
  if (day_first && month_first && open_text(column) != nullptr) return column.dates;
  if (day_first) return DateOrder::kDayMonth;
  if (month_first) return DateOrder::kMonthDay;
  return std::nullopt;
}

std::string open_dates(const Column& column) {
  if (column.dates || !all_dates(column, DateOrder::kDayMonth) ||
      !all_dates(column, DateOrder::kMonthDay)) {
    return "";
  }
  const std::string* text = open_text(column);
  if (text == nullptr) return "";
  const auto day = [&](DateOrder order) {
    const Date date = *parse_date(*text, order);
    const std::chrono::year_month_day ymd{std::chrono::sys_days(std::chrono::days(date.day))};
    return c10::str(date.year, date.month < 10 ? "-0" : "-", date.month, "-",
                    static_cast<unsigned>(ymd.day()) < 10 ? "0" : "",
                    static_cast<unsigned>(ymd.day()));
  };
  return c10::str(in_quotes(*text), " may be ", day(DateOrder::kDayMonth), " or ",
                  day(DateOrder::kMonthDay), ": --dates day-month, or month-day, decides");
}

bool holds_dates(const Column& column) { return date_order(column).has_value(); }

std::string to_string(DateOrder order) { return cdt::name_of(kDateOrderNames, order); }

DateOrder parse_date_order(const std::string& name) {
  return cdt::parse_name(kDateOrderNames, name, "the order of dates");
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
  CDT_REQUIRE(part == DatePart::kMonth, "expected a part of a date that is a category, got ",
              to_string(part));
  return {"01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12"};
}

std::string to_string(DatePart part) { return cdt::name_of(kDatePartNames, part); }

DatePart parse_date_part(const std::string& name) {
  return cdt::parse_name(kDatePartNames, name, "a part of a date");
}

}  // namespace cdt::data
