#include "cdt/data/csv/csv_rows.h"

#include <algorithm>
#include <cstring>

namespace cdt::data {

std::string_view CsvCell::undoubled(std::string& scratch) const {
  scratch.clear();
  for (size_t i = 0; i < bytes.size(); ++i) {
    scratch += bytes[i];
    if (bytes[i] == '"') ++i;
  }
  return scratch;
}

int64_t CsvCell::count_lines() const { return std::count(bytes.begin(), bytes.end(), '\n'); }

CsvRows::CsvRows(char delimiter) : delimiter_(delimiter) {
  for (const char c : {delimiter, '"', '\r', '\n'}) {
    ends_plain_[static_cast<unsigned char>(c)] = true;
  }
}

CsvRows::Status CsvRows::next(std::string_view bytes, bool last, size_t& place) {
  count_ = 0;
  const char* const end = bytes.data() + bytes.size();
  const char* p = bytes.data() + place;
  const auto stop = [&](Status status) {
    place = static_cast<size_t>(p - bytes.data());
    return status;
  };
  const auto skip_blanks = [&] {
    while (p < end && is_blank(*p)) ++p;
  };
  while (true) {
    if (count_ == kMostFields) return stop(Status::kTooMany);
    skip_blanks();
    if (count_ == cells_.size()) cells_.resize(2 * count_ + 16);
    CsvCell& cell = cells_[count_] = {};
    if (p < end && *p == '"') {
      const char* const begin = p + 1;
      const char* quote = begin;
      while (true) {
        quote = static_cast<const char*>(std::memchr(quote, '"', static_cast<size_t>(end - quote)));
        if (quote == nullptr) return last ? stop(Status::kOpenQuote) : Status::kIncomplete;
        if (quote + 1 == end || quote[1] != '"') break;
        cell.doubled = true;
        quote += 2;
      }
      cell.quoted = true;
      cell.bytes = {begin, static_cast<size_t>(quote - begin)};
      p = quote + 1;
      skip_blanks();
      if (p < end && *p != delimiter_ && *p != '\r' && *p != '\n') return stop(Status::kStrayQuote);
    } else {
      const char* const begin = p;
      while (p < end && !ends_plain_[static_cast<unsigned char>(*p)]) ++p;
      if (p < end && *p == '"') return stop(Status::kStrayQuote);
      const char* stripped = p;
      while (stripped > begin && is_blank(stripped[-1])) --stripped;
      cell.bytes = {begin, static_cast<size_t>(stripped - begin)};
    }
    if (p == end && !last) return Status::kIncomplete;
    if (p < end && *p == delimiter_) {
      ++count_;
      ++p;
      continue;
    }
    if (p < end) {
      if (*p == '\r' && p + 1 == end && !last) return Status::kIncomplete;
      p += *p == '\r' && p + 1 < end && p[1] == '\n' ? 2 : 1;
    }
    const bool blank = count_ == 0 && cell.bytes.empty() && !cell.quoted;
    if (!blank) ++count_;
    return stop(blank ? Status::kBlank : Status::kRow);
  }
}

std::optional<char> detect_delimiter(std::string_view bytes, bool last) {
  constexpr std::string_view kOthers = ";|\t";
  std::string found;
  bool quoted = false, begun = false, tab = false;
  for (const char c : bytes) {
    if (c == '"') quoted = !quoted;
    if (quoted || c == ' ') {
      begun = begun || quoted;
    } else if (c == '\t') {
      tab = begun;  // a blank, unless it is between text
    } else if (c != '\n' && c != '\r') {
      begun = true;
      for (const char mark : {tab ? '\t' : c, c}) {
        const bool separates = mark == ',' || kOthers.find(mark) != std::string_view::npos;
        if (separates && found.find(mark) == std::string::npos) found += mark;
      }
      tab = false;
    } else if (begun) {
      last = true;
      break;
    }
  }
  if (!last) return std::nullopt;
  return found.size() == 1 ? found[0] : ',';
}

}  // namespace cdt::data
