#include <cdt/core/text/format.h>
#include <cdt/report/text.h>

#include <cmath>

namespace cdt::report {

std::string show(double value) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  return plain(value);
}

std::string show(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "–";
}

std::string show(const std::string& text) { return text.empty() ? "–" : text; }

Table name_value_table(const std::vector<NameValue>& values, std::string title) {
  Table table{std::move(title), {"", ""}, {}, ""};
  for (const auto& [name, value] : values) {
    std::string words = name;
    for (char& c : words) c = c == '_' ? ' ' : c;
    table.rows.push_back({words, value});
  }
  return table;
}

}  // namespace cdt::report
