#include <cdt/core/file.h>
#include <cdt/report/run_files.h>
#include <cdt/report/text.h>

#include <cstdlib>

namespace cdt::report {
namespace fs = std::filesystem;

double to_number(const std::string& cell) {
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  return end == cell.c_str() || *end != '\0' ? std::nan("") : value;
}

const std::vector<std::string>* CsvFile::find(const std::string& name) const {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == name) return &cells[i];
  }
  return nullptr;
}

std::vector<double> CsvFile::numbers(const std::string& name) const {
  const auto* column = find(name);
  if (column == nullptr) return std::vector<double>(rows(), std::nan(""));
  std::vector<double> values;
  values.reserve(column->size());
  for (const std::string& cell : *column) values.push_back(to_number(cell));
  return values;
}

CsvFile parse_csv(const std::string& text, const std::string& source) {
  CsvFile file;
  std::vector<std::string> row(1);
  bool quoted = false;
  size_t line = 1;
  const auto finish_row = [&] {
    if (file.columns.empty()) {
      file.columns = row;
      file.cells.resize(row.size());
    } else {
      CDT_REQUIRE(row.size() == file.columns.size(), source, ", line ", line, ": expected ",
                  file.columns.size(), " cells, but came ", row.size());
      for (size_t i = 0; i < row.size(); ++i) file.cells[i].push_back(std::move(row[i]));
    }
    row.assign(1, "");
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        row.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        row.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      finish_row();
    } else if (c != '\r') {
      row.back() += c;
    }
    if (c == '\n') ++line;
  }
  CDT_REQUIRE(!quoted, source, ": a quote is not closed");
  if (row.size() > 1 || !row[0].empty()) finish_row();
  return file;
}

nlohmann::ordered_json read_json(const fs::path& path) {
  try {
    return nlohmann::ordered_json::parse(read_file(path));
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(c10::str(path.string(), ": is not JSON: ", error.what()));
  }
}

RunFiles read_run(const fs::path& folder) {
  CDT_REQUIRE(fs::is_directory(folder), folder.string(), ": expected the folder of a run",
              fs::exists(folder) ? ", but it is a file" : ", but it does not exist");
  CDT_REQUIRE(fs::exists(folder / "run.json"), folder.string(),
              ": expected the folder of a run or a sweep, but it has neither run.json nor "
              "results.json");
  RunFiles files;
  const fs::path whole = fs::absolute(folder).lexically_normal();
  files.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  files.run = read_json(folder / "run.json");
  require_format(files.run, "cdt-run-1", (folder / "run.json").string());
  const auto csv = [&](const char* name) {
    const fs::path path = folder / name;
    return fs::exists(path) ? parse_csv(read_file(path), path.string()) : CsvFile{};
  };
  files.history = csv("history.csv");
  files.predictions = csv("predictions.csv");
  files.spectrum = csv("spectrum.csv");
  return files;
}

}  // namespace cdt::report
