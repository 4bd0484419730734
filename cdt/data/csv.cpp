/// CSV through libcsv: it splits bytes into fields, the reader below gives them to the columns.
#include "cdt/data/csv.h"

#include <csv.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <system_error>

#include "cdt/core/error.h"
#include "cdt/data/column_builder.h"

namespace cdt::data {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

int64_t lines_in(const char* text, size_t size) {
  if (size == 0 || std::memchr(text, '\n', size) == nullptr) return 0;
  return std::count(text, text + size, '\n');
}

class Reader {
 public:
  Reader(std::string file, const CsvOptions& options)
      : file_(std::move(file)), options_(options), marks_(options.missing_marks) {
    if (csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL) != 0)
      throw std::bad_alloc();
    csv_set_delim(&parser_, static_cast<unsigned char>(options.delimiter));
    csv_set_blk_size(&parser_, 4096);
  }
  ~Reader() { csv_free(&parser_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void parse(std::string_view bytes) {
    const void* nul = std::memchr(bytes.data(), '\0', bytes.size());
    if (nul != nullptr) {
      bytes = bytes.substr(0, static_cast<size_t>(static_cast<const char*>(nul) - bytes.data()));
    }
    const size_t used =
        csv_parse(&parser_, bytes.data(), bytes.size(), &Reader::on_field, &Reader::on_end, this);
    if (failure_) std::rethrow_exception(failure_);
    if (used < bytes.size()) {
      refuse(
          "expected quotes only around a field, and doubled inside it, but came a single one "
          "(or an earlier quote is not closed)");
    }
    if (nul != nullptr) {
      refuse("expected text, but came a NUL byte; is this UTF-16 or a binary file?");
    }
  }

  Table finish() {
    const int status = csv_fini(&parser_, &Reader::on_field, &Reader::on_end, this);
    if (failure_) std::rethrow_exception(failure_);
    CDT_REQUIRE(status == 0, file_, ":", line_,
                ": expected a closing quote, but the field that begins in this line has none");
    CDT_REQUIRE(ready_, file_, ": expected ", options_.header ? "a header" : "rows",
                ", but the file is empty");
    CDT_REQUIRE(!table_.lines.empty(), file_, ": expected rows, but there is only the header");
    table_.source = file_;
    for (auto& builder : builders_) {
      if (builder) table_.columns.push_back(builder->finish());
    }
    return std::move(table_);
  }

 private:
  /// Exceptions must not cross the C library: the first one waits until it has returned.
  template <typename Work>
  void guarded(const Work& work) {
    if (failure_) return;
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  static void on_field(void* text, size_t size, void* reader) {
    auto* self = static_cast<Reader*>(reader);
    self->guarded([&] { self->field({static_cast<const char*>(text), size}); });
  }

  static void on_end(int terminator, void* reader) {
    auto* self = static_cast<Reader*>(reader);
    self->guarded([&] { self->end_of_line(terminator); });
  }

  void field(std::string_view text) {
    if (field_ == 0) row_line_ = line_;
    if (!ready_) {
      names_.emplace_back(text);
      if (!options_.header) first_row_.emplace_back(text, line_);
    } else if (field_ < builders_.size() && builders_[field_]) {
      builders_[field_]->add(text, line_);
    }
    ++field_;
    after_return_ = false;
    line_ += lines_in(text.data(), text.size());  // a field in quotes may span lines
  }

  void end_of_line(int terminator) {
    // CR LF comes as two ends.
    const bool second_half = terminator == '\n' && after_return_;
    if (field_ > 0) end_of_row();
    after_return_ = terminator == '\r';
    if (!second_half) ++line_;
  }

  void end_of_row() {
    if (!ready_) {
      set_up();
      if (!options_.header) {
        for (size_t i = 0; i < first_row_.size(); ++i) {
          if (builders_[i]) builders_[i]->add(first_row_[i].first, first_row_[i].second);
        }
        table_.lines.push_back(row_line_);
      }
    } else {
      CDT_REQUIRE(field_ == builders_.size(), place(), ": expected ", builders_.size(),
                  " fields, as in the first line, but came ", field_);
      table_.lines.push_back(row_line_);
    }
    field_ = 0;
  }

  /// The columns, once the first line is known.
  void set_up() {
    std::map<std::string, size_t> seen;
    for (size_t i = 0; i < names_.size(); ++i) {
      std::string& name = names_[i];
      CDT_REQUIRE(!options_.header || is_utf8(name), place(),
                  ": expected UTF-8 column names, but column ", i + 1,
                  " has other bytes; convert the file, for example: iconv -f latin1 -t utf-8");
      if (!options_.header || name.empty()) name = "column" + std::to_string(i + 1);
      const auto [it, fresh] = seen.emplace(name, i + 1);
      CDT_REQUIRE(fresh, place(), ": expected different column names, but columns ", it->second,
                  " and ", i + 1, " are both ", in_quotes(name));
    }
    const auto require_known = [&](const std::string& name) {
      CDT_REQUIRE(seen.count(name) > 0 || contains(options_.keep, name), file_,
                  ": expected a column ", in_quotes(name), ", but the columns are ",
                  list_names(names_));
    };
    for (const auto& [name, type] : options_.types) require_known(name);
    for (const std::string& name : options_.drop) require_known(name);
    for (const std::string& name : names_) {
      const bool wanted = !contains(options_.drop, name) &&
                          (options_.keep.empty() || contains(options_.keep, name));
      const auto type = options_.types.find(name);
      builders_.push_back(
          wanted
              ? std::make_unique<ColumnBuilder>(
                    name, type == options_.types.end() ? std::nullopt : std::optional(type->second),
                    file_, marks_)
              : nullptr);
    }
    ready_ = true;
  }

  /// The present row's place, for messages.
  std::string place() const { return c10::str(file_, ":", row_line_); }

  /// Refuses the byte at which the parser stands, maybe some lines into a field.
  [[noreturn]] void refuse(std::string_view why) {
    if (csv_error(&parser_) == CSV_ENOMEM) throw std::bad_alloc();
    const auto* begun = reinterpret_cast<const char*>(parser_.entry_buf);
    throw InvalidArgument(
        c10::str(file_, ":", line_ + lines_in(begun, parser_.entry_pos), ": ", why));
  }

  std::string file_;
  const CsvOptions& options_;
  MissingMarks marks_;
  csv_parser parser_{};
  std::exception_ptr failure_;
  Table table_;
  std::vector<std::string> names_;
  std::vector<std::pair<std::string, int64_t>> first_row_;
  std::vector<std::unique_ptr<ColumnBuilder>> builders_;  ///< null for columns left out
  bool ready_ = false;                                    ///< the columns are known
  bool after_return_ = false;                             ///< the last line ended with CR
  size_t field_ = 0;                                      ///< fields of the present row so far
  int64_t line_ = 1;
  int64_t row_line_ = 1;  ///< where the present row began
};

}  // namespace

Table read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  const std::string file = path.string();
  const char delimiter = options.delimiter;
  CDT_REQUIRE(static_cast<unsigned char>(delimiter) < 0x80 && delimiter != ' ' &&
                  std::strchr("\"\r\n", delimiter) == nullptr,
              "expected a delimiter such as , or ; but came ", in_quotes({&delimiter, 1}));
  const auto refuse = [&] {
    throw InvalidArgument(
        c10::str("cannot read ", file, ": ", std::generic_category().message(errno)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rbe"),
                                                               &std::fclose);
  if (!stream) refuse();
  std::setvbuf(stream.get(), nullptr, _IONBF, 0);
  Reader reader(file, options);
  std::string chunk(kChunk, '\0');
  bool first = true;
  while (true) {
    const size_t count = std::fread(chunk.data(), 1, chunk.size(), stream.get());
    if (std::ferror(stream.get()) != 0) refuse();
    std::string_view bytes(chunk.data(), count);
    if (first && bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
    first = false;
    reader.parse(bytes);
    if (count < chunk.size()) break;
  }
  return reader.finish();
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n ") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace cdt::data
