/// Builds one column cell by cell and finds out its type on the way.
///
/// A column is numeric until a cell comes that is neither a number nor missing. From there it is
/// text, and the cells before it are turned back into the very text they were: most numbers print
/// as they were written, and the spelling of the others ("020", "1.50", "1e3") is kept beside them.
/// So one pass over the file is enough, and numbers cost eight bytes a cell.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

#include <array>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace cdt::data {

/// The spellings of a missing value. The empty cell always is one.
class MissingMarks {
 public:
  explicit MissingMarks(std::vector<std::string> marks);
  bool contains(std::string_view text) const {
    return text.empty() || (starts_[static_cast<unsigned char>(text[0])] && listed(text));
  }

 private:
  bool listed(std::string_view text) const;

  std::vector<std::string> marks_;
  std::array<bool, 256> starts_{};  ///< first bytes of marks: most cells need no more than this
};

/// What stands around the number that a text is; nothing if it is none. Equal for texts of one
/// form.
std::optional<std::string> surroundings(std::string_view text);

/// Texts that are numbers as people write them become numbers, and the column says so; where they
/// could be two, it warns. Columns of other texts stay as they are.
void understand(Column& column, char decimal = 0, bool comma_likely = false);

class ColumnBuilder {
 public:
  /// How cells are read where that is open: see CsvOptions.
  struct Reading {
    std::optional<ColumnType> type = std::nullopt;  ///< none: the cells decide
    std::optional<NumberFormat> format =
        std::nullopt;  ///< of numbers, as it was found when a model was trained
    char decimal = 0;
    bool comma_likely = false;
    std::optional<DateOrder> dates = std::nullopt;
  };
  /// `file` and `marks` must outlive the builder.
  ColumnBuilder(std::string name, Reading reading, const std::string& file,
                const MissingMarks& marks);

  /// @throws InvalidArgument on a cell that is no number in a column of forced numeric type, and on
  /// text that is not UTF-8.
  void add(std::string_view text, int64_t line);
  /// Room for so many cells.
  void reserve(size_t cells);
  /// @throws InvalidArgument if the column is numeric and holds an infinite number.
  Column finish();

 private:
  /// A number whose text does not follow from its value.
  struct Spelling {
    size_t row;
    size_t end;  ///< in spelled_; it begins where the one before ends
  };

  /// A text of the column and its code: most columns have few, and a look at one place is quicker
  /// than one into the table of all.
  struct Recent {
    std::string_view text;  ///< none yet: empty, and empty cells are missing
    int32_t code = -1;
  };

  void add_text(std::string_view text, int64_t line);
  void become_text(std::string_view text, int64_t line);
  void count_numbers();
  bool parse_cell(std::string_view text, double& value) const;
  /// Whole numbers that float64 rounds: texts, if different ones would become the same.
  void keep_identity();

  Column column_;
  Reading reading_;
  bool forced_;
  const std::string& file_;
  const MissingMarks& marks_;
  std::vector<Spelling> spellings_;
  std::string spelled_;
  std::string infinite_;  ///< the first infinite number
  int64_t infinite_line_ = 0;
  int64_t rounded_ = 0;  ///< whole numbers beyond what float64 holds
  std::string first_rounded_;
  std::unordered_map<std::string_view, int32_t> codes_;  ///< views into names_
  std::deque<std::string> names_;                        ///< by code
  std::vector<Recent> recent_;                           ///< by their places
};

}  // namespace cdt::data
