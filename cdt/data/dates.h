/// Parsing of dates: 2024-02-29, 29.02.2024, 2/29/2024, 29 Feb 2024, with or without a time of day.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

namespace cdt::data {

/// A day of the Gregorian calendar and a local time as written. Zones affect `instant` only.
struct Date {
  int year = 0;
  int month = 1;    ///< from 1
  int weekday = 1;  ///< 1 is Monday
  int64_t day = 0;  ///< since 1970-01-01
  double hour = 0;  ///< since midnight
  /// Seconds since 1970-01-01 00:00 UTC; UTC is assumed if there is no zone.
  double instant = 0;
};

/// Parses ISO 8601 as as.Date, pandas and databases write it: YYYY-MM-DD or YYYY/MM/DD, then
/// optionally a blank or T with HH:MM, HH:MM:SS or fractions of seconds, then optionally Z, UTC or
/// an offset (+01:00, +0100, +01). Also with English month names: 29 Feb 2024 or February 29, 2024.
/// Given an order also 29.02.2024 (always day first), 29/02/2024 and 29-02-24, or 02/29/2024.
/// Two-digit years are 1969 to 2068; times may have AM and PM. Empty if the text is not a valid
/// date.
std::optional<Date> parse_date(std::string_view text, DateOrder order = DateOrder::kYearFirst);

/// The order in which each text of the column is a date; empty if there is none, or several and
/// Column::dates does not say which.
std::optional<DateOrder> date_order(const Column& column);
/// Describes an ambiguous date of the column in its two readings: "1/2/2020 may be …". Empty if
/// there is none.
std::string open_dates(const Column& column);

/// Whether the column is text, has values, and all are dates.
bool holds_dates(const Column& column);

/// "year-first", "day-month" or "month-day".
std::string to_string(DateOrder order);
/// @throws InvalidArgument on an unknown name.
DateOrder parse_date_order(const std::string& name);

/// The parts of a date that become features.
enum class DatePart { kYear, kMonth, kWeekday, kDay, kHour };
inline constexpr DatePart kDateParts[]{DatePart::kYear, DatePart::kMonth, DatePart::kWeekday,
                                       DatePart::kDay, DatePart::kHour};
double part_of(const Date& date, DatePart part);
/// Whether a part is cyclic and has few values: December is next to January, Sunday to Monday, so
/// neither order nor distance has a meaning. Such a part is categorical.
bool is_cyclic(DatePart part);
/// The categories of a cyclic part, sorted: 01, …, 12; 1, …, 7.
std::vector<std::string> categories_of(DatePart part);

/// year, month, weekday, day, hour.
std::string to_string(DatePart part);
/// @throws InvalidArgument on an unknown name.
DatePart parse_date_part(const std::string& name);

}  // namespace cdt::data
