#include <cdt/kernel/rules/table.h>

#include <unordered_map>

namespace cdt::kernel {
namespace {

using RulesByOperator = std::unordered_map<std::string_view, std::vector<Rule>>;

RulesByOperator table_of_rules() {
  RulesByOperator table;
  for (const auto& file :
       {rules::operands(), rules::linear(), rules::convolution(), rules::embedding(), rules::norm(),
        rules::addition(), rules::scale(), rules::training_mode()}) {
    for (const Rule& rule : file) {
      for (const std::string_view name : rule.operators) table[name].push_back(rule);
    }
  }
  return table;
}

}  // namespace

const std::vector<Rule>& rules_for(std::string_view name) {
  static const RulesByOperator table = table_of_rules();
  static const std::vector<Rule> none;
  const auto it = table.find(name);
  return it == table.end() ? none : it->second;
}

}  // namespace cdt::kernel
