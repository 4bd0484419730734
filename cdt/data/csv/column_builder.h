/// Builds one column cell by cell and determines its type.
///
/// A column is numeric until a cell is neither a number nor missing. Then it becomes text, and
/// earlier cells get their original text back: most numbers print as they were written, and other
/// spellings ("020", "1.50", "1e3") are stored. So one pass over the file suffices, and numbers
/// take eight bytes per cell.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

#include <array>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace cdt::data {

/// Texts for a missing value, in addition to the empty cell.
class MissingMarks {
 public:
  explicit MissingMarks(std::vector<std::string> marks);
  bool contains(std::string_view text) const {
    return text.empty() || (starts_[static_cast<unsigned char>(text[0])] && listed(text));
  }

 private:
  bool listed(std::string_view text) const;

  std::vector<std::string> marks_;
  std::array<bool, 256> starts_{};  ///< first bytes of marks: a quick test for most cells
};

/// Prefix and suffix of the number in a text, equal for texts of one format; empty if it is not a
/// number.
std::optional<std::string> surroundings(std::string_view text);

/// Converts texts that are formatted numbers to numbers, and records it in the column; warns if
/// they are ambiguous. Columns of other texts are unchanged.
void understand(Column& column, char decimal = 0, bool comma_likely = false);

class ColumnBuilder {
 public:
  /// How to read ambiguous cells: see CsvOptions.
  struct Reading {
    std::optional<ColumnType> type = std::nullopt;  ///< none: the cells decide
    /// Number format found when a model was trained.
    std::optional<NumberFormat> format = std::nullopt;
    char decimal = 0;
    bool comma_likely = false;
    std::optional<DateOrder> dates = std::nullopt;
  };
  /// `file` and `marks` must outlive the builder.
  ColumnBuilder(std::string name, Reading reading, const std::string& file,
                const MissingMarks& marks);

  /// @throws InvalidArgument on a cell that is not a number in a column forced to be numeric, and
  ///   on text that is not UTF-8.
  void add(std::string_view text, int64_t line);
  /// Reserves memory for this many cells.
  void reserve(size_t cells);
  /// @throws InvalidArgument if the column is numeric and holds an infinite number.
  Column finish();

 private:
  /// A number that does not print as it was written.
  struct Spelling {
    size_t row;
    size_t end;  ///< in spelled_; it begins at the end of the previous one
  };

  /// Cache of a text and its code: most columns have few texts, and a lookup here is faster than in
  /// codes_.
  struct Recent {
    std::string_view text;  ///< empty: unused, since empty cells are missing
    int32_t code = -1;
  };

  void add_text(std::string_view text, int64_t line);
  void become_text(std::string_view text, int64_t line);
  void count_numbers();
  bool parse_cell(std::string_view text, double& value) const;
  /// Turns integers that float64 rounds into text, if different ones would become equal.
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
  int64_t rounded_ = 0;  ///< integers that float64 cannot represent
  std::string first_rounded_;
  std::unordered_map<std::string_view, int32_t> codes_;  ///< views into names_
  std::deque<std::string> names_;                        ///< by code
  std::vector<Recent> recent_;                           ///< by hash
};

}  // namespace cdt::data
