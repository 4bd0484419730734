/// Texts that are dates: 2024-02-29, 2024/02/29, with or without a time of the day.
#pragma once

#include <cdt/data/table.h>

namespace cdt::data {

/// A day of the Gregorian calendar, and the time as it is written: zones are not applied.
struct Date {
  int year = 0;
  int month = 1;    ///< from 1
  int weekday = 1;  ///< 1 is Monday
  int64_t day = 0;  ///< since 1970-01-01
  double hour = 0;  ///< since midnight
};

/// ISO 8601 as as.Date, pandas and databases write it: YYYY-MM-DD or YYYY/MM/DD, then nothing or
/// a blank or T with HH:MM, HH:MM:SS or fractions of seconds, then nothing, Z, UTC or an offset
/// (+01:00, +0100, +01). Nothing if it is none, or no day of the calendar.
std::optional<Date> parse_date(std::string_view text);

/// Whether the column is text, has values, and each is a date.
bool holds_dates(const Column& column);

/// What a date gives to learn from.
enum class DatePart { kYear, kMonth, kWeekday, kDay, kHour };
inline constexpr DatePart kDateParts[]{DatePart::kYear, DatePart::kMonth, DatePart::kWeekday,
                                       DatePart::kDay, DatePart::kHour};
double part_of(const Date& date, DatePart part);
/// Whether it is one of a few in a circle, where neither order nor distance mean anything:
/// December is next to January, and Sunday to Monday. Such a part is a category.
bool is_cyclic(DatePart part);
/// The categories of a cyclic part, sorted: 01, …, 12; 1, …, 7.
std::vector<std::string> categories_of(DatePart part);

/// year, month, weekday, day, hour.
std::string to_string(DatePart part);
/// @throws InvalidArgument on another name.
DatePart parse_date_part(const std::string& name);

}  // namespace cdt::data
