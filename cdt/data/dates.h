/// Texts that are dates: 2024-02-29, 29.02.2024, 2/29/2024, 29 Feb 2024, with or without a time of
/// the day.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

namespace cdt::data {

/// A day of the Gregorian calendar, and the time as it is written there: zones make it no other,
/// but they say which instant it is.
struct Date {
  int year = 0;
  int month = 1;    ///< from 1
  int weekday = 1;  ///< 1 is Monday
  int64_t day = 0;  ///< since 1970-01-01
  double hour = 0;  ///< since midnight
  /// Seconds since 1970-01-01 00:00 UTC; without a zone as if it were UTC.
  double instant = 0;
};

/// ISO 8601 as as.Date, pandas and databases write it: YYYY-MM-DD or YYYY/MM/DD, then nothing or
/// a blank or T with HH:MM, HH:MM:SS or fractions of seconds, then nothing, Z, UTC or an offset
/// (+01:00, +0100, +01). Or with the month's English name, 29 Feb 2024 or February 29, 2024. With
/// an order also 29.02.2024 (always with the day first), 29/02/2024 and 29-02-24, or 02/29/2024;
/// years of two digits are 1969 to 2068; times may have AM and PM. Nothing if it is none, or no day
/// of the calendar.
std::optional<Date> parse_date(std::string_view text, DateOrder order = DateOrder::kYearFirst);

/// The order in which each text of the column is a date, or nothing: it holds none, or more than
/// one order would do and none is given (Column::dates).
std::optional<DateOrder> date_order(const Column& column);
/// A text of dates whose order is open, in two readings: "1/2/2020 may be …". Empty: none.
std::string open_dates(const Column& column);

/// Whether the column is text, has values, and each is a date.
bool holds_dates(const Column& column);

/// "year-first", "day-month" or "month-day".
std::string to_string(DateOrder order);
/// @throws InvalidArgument on another name.
DateOrder parse_date_order(const std::string& name);

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
