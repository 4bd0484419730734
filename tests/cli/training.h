/// cdt train and cdt predict on a small table, for the tests of what they do.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/program.h"

namespace cdt::test {

using Row = std::vector<std::string>;
using Text = const std::string&;

inline Row split(Text text, char mark) {
  Row parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, mark);) parts.push_back(part);
  if (mark == ',' && text.back() == mark) parts.emplace_back();
  return parts;
}

/// Files without quotes. `change` gets each row and its number, 0 for the header.
inline std::string edited(Text csv, const std::function<void(Row&, int)>& change) {
  std::string text;
  int number = 0;
  for (Text line : split(csv, '\n')) {
    Row row = split(line, ',');
    change(row, number++);
    for (size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + row[i];
    text += "\n";
  }
  return text;
}

inline std::string with_cell(Text csv, int line, size_t column, Text cell) {  // header: 1
  return edited(csv, [&](Row& row, int i) { row[column] = i == line - 1 ? cell : row[column]; });
}

inline const auto without_rooms = [](Row& row, int) { row.erase(row.begin() + 1); };

/// A table of so many rows: area, rooms, kind and price.
inline std::string homes(int rows) {
  const Row kinds{"flat", "house", "hut"};
  std::ostringstream csv("area,rooms,kind,price\n", std::ios::ate);
  for (int i = 0; i < rows; ++i) {
    const int area = 50 + (i * 37) % 91;
    csv << area << "," << 1 + i % 5 << "," << kinds[i % 3] << ","
        << 1000 * area + 9000 * (i % 5) + 5000 * (i % 3) + 300 * (i * i % 17) << "\n";
  }
  return csv.str();
}

/// A table of 40 homes, and runs that learn their prices.
class Training : public Program {
 protected:
  void SetUp() override { write("homes.csv", homes(kRows)); }
  std::string saved(Text csv) { return write("other.csv", csv), "other.csv"; }
  double scale(Text run) const { return parse(run + "/preprocess.json")["targets"][0]["scale"]; }
  double train_loss(Text run) const { return parse(run + "/run.json")["result"]["train_loss"]; }
  std::map<std::string, std::string> files_in(Text run) const {
    std::map<std::string, std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(folder_ / run)) {
      files[file.path().filename()] = slurp(run + "/" + file.path().filename().string());
    }
    return files;
  }
  Row history(Text run, size_t column) const {
    Row cells;
    edited(slurp(run + "/history.csv"), [&](Row& row, int) { cells.push_back(row.at(column)); });
    return {cells.begin() + 1, cells.end()};
  }
  Result train(Text flags, Text file = "homes.csv") {
    return cdt("train " + file + kTrain + flags);
  }
  Result predict(Text run, Text file) {
    return cdt("predict " + run + " " + file + " --out new.csv --threads 1");
  }
  void trained(Text options, Text file = "homes.csv") {
    const Result result = train(options, file);
    ASSERT_EQ(result.code, 0) << options << "\n" << result.err;
  }
  /// Exit code 2, nothing on stdout, a short message, and no folder.
  void expect_refused(const Result& result, Text message) {
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, testing::HasSubstr(message));
    EXPECT_LT(result.err.size(), 320u) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_FALSE(exists("refused"));
  }
  void expect_refused(Text options, Text message, Text file = "homes.csv") {
    SCOPED_TRACE(file + " " + options);
    expect_refused(train("--out refused --overwrite " + options, file), message);
  }
  void expect_same_run(Text a, Text b) const {  // bit for bit, the clock aside
    for (size_t column = 0; column < 8; ++column) EXPECT_EQ(history(a, column), history(b, column));
    EXPECT_TRUE(slurp(a + "/model.safetensors") == slurp(b + "/model.safetensors"));
    EXPECT_TRUE(slurp(a + "/predictions.csv") == slurp(b + "/predictions.csv"));
  }
  static constexpr int kRows = 40;
  static constexpr const char* kTrain =
      " --target price --goal fit --threads 1 --no-analysis --hidden 16 ";
};

}  // namespace cdt::test
