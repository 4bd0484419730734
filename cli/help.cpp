#include "cli/help.h"

#include <cdt/core/text/wrap.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>

namespace cdt::cli {
namespace {

/// Column at which descriptions begin.
constexpr size_t kText = 24;
/// A command with more options than this shows the important ones first.
constexpr size_t kShortList = 18;

struct Place {
  OptionGroup group = OptionGroup::kOutput;
  bool first = false;
};

/// Group of an option, and whether it is shown first: from its settings row, or from this list if
/// it is not a setting.
Place place_of_option(const std::string& name) {
  using Group = OptionGroup;
  static const std::map<std::string, Place, std::less<>> others{
      {"inputs", {Group::kData}},
      {"labels", {Group::kData}},
      {"outputs", {Group::kData}},
      {"outputs-per-sample", {Group::kData}},
      {"kernel", {Group::kData, true}},
      {"model", {Group::kModel, true}},
      {"other-inputs", {Group::kData}},
      {"data", {Group::kData, true}},
      {"id", {Group::kData, true}},
      {"experiment", {Group::kData}},
      {"archs", {Group::kModel, true}},
      {"goals", {Group::kTraining, true}},
      {"methods", {Group::kTraining, true}},
      {"lrs", {Group::kTraining, true}},
      {"seeds", {Group::kTraining, true}},
      {"table-only", {Group::kTraining}},
      {"trial-steps", {Group::kControl}},
      {"reach-steps", {Group::kControl}},
      {"Q", {Group::kControl}},
      {"R", {Group::kControl}},
      {"forecast", {Group::kControl, true}},
      {"by-rows", {Group::kMachine}},
      {"workers", {Group::kMachine}},
      {"worker-timeout", {Group::kMachine}},
      {"jobs", {Group::kMachine}},
      {"together", {Group::kMachine}},
      {"out", {Group::kOutput, true}},
      {"resume", {Group::kOutput, true}},
      {"explain", {Group::kOutput, true}},
      {"json", {Group::kOutput, true}},
  };
  const auto& rows = study::all_settings();
  const auto row = std::ranges::find(rows, name, &study::Setting::name);
  if (row != rows.end()) return {row->group, row->shown_first};
  const auto other = others.find(name);
  return other == others.end() ? Place{} : other->second;
}

std::string name_of_group(OptionGroup group) {
  constexpr std::array kNames{"Data", "Model", "Training", "Control", "Output", "Machine"};
  return kNames.at(static_cast<size_t>(group));
}

/// "--target COLUMN"
std::string left_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name();
  std::string type = option.get_type_name();
  type = type.substr(0, type.find(':'));
  if (option.get_items_expected_max() == 0) type.clear();
  if (type == "TEXT" && !choices_of(option).empty()) type = "NAME";
  if (type == "INT" || type == "UINT") type = "N";
  if (type == "FLOAT") type = "X";
  return "--" + option.get_lnames().front() + (type.empty() ? "" : " " + type);
}

std::string right_of(const CLI::Option& option) {
  std::string text = option.get_description();
  const auto choices = choices_of(option);
  const bool named = std::ranges::all_of(
      choices, [&](const std::string& each) { return text.find(each) != std::string::npos; });
  if (!named) text += fmt::format(". One of {}", fmt::join(choices, ", "));
  const std::string usual = option.get_default_str();
  const bool told = text.find("efault") != std::string::npos;
  if (!usual.empty() && !told) text += ". Default: " + usual;
  if (option.get_required() && !option.get_positional()) text += ". Required";
  return text;
}

std::string entry(const CLI::Option& option) {
  const std::string left = "  " + left_of(option);
  const std::string gap = printed_width(left) + 2 > kText
                              ? "\n" + std::string(kText, ' ')
                              : std::string(kText - printed_width(left), ' ');
  return wrap(left + gap + right_of(option), kText) + "\n";
}

bool is_help(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return !names.empty() && names.front().starts_with("help");
}

/// Shows options in groups; commands with subcommands keep CLI11's layout.
class GroupedHelp : public CLI::Formatter {
 public:
  explicit GroupedHelp(GroupExamples examples) : examples_(std::move(examples)) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    if (!app->get_subcommands([](const CLI::App*) { return true; }).empty()) {
      return CLI::Formatter::make_help(app, name, CLI::AppFormatMode::Normal);
    }
    const auto options = app->get_options([](const CLI::Option* option) {
      return !option->get_group().empty() && !is_help(*option);
    });
    const bool all = mode == CLI::AppFormatMode::All || options.size() <= kShortList;
    std::string places;
    for (const CLI::Option* option : options) {
      if (!option->get_positional()) continue;
      places += option->get_required() ? " " + option->get_name() : " [" + option->get_name() + "]";
      if (option->get_items_expected_max() > 1) places += " ...";
    }
    std::string text =
        wrap(app->get_description(), 0) + "\n\nusage: " + name + places + " [OPTIONS]\n";
    size_t left_out = 0;
    for (const OptionGroup group :
         {OptionGroup::kData, OptionGroup::kModel, OptionGroup::kTraining, OptionGroup::kControl,
          OptionGroup::kOutput, OptionGroup::kMachine}) {
      std::string lines;
      for (const CLI::Option* option : options) {
        const bool positional = option->get_positional();
        const Place place = positional ? Place{OptionGroup::kData, true}
                                       : place_of_option(option->get_lnames().front());
        if (place.group != group) continue;
        const bool shown = all || place.first || option->get_required();
        lines += shown ? entry(*option) : "";
        left_out += shown ? 0 : 1;
      }
      if (lines.empty()) continue;
      text += "\n" + name_of_group(group) + "\n" + lines;
      const auto example = examples_.find(group);
      if (example != examples_.end()) text += "  Example: " + example->second + "\n";
    }
    if (left_out > 0) {
      text += fmt::format("\n{} --help-all lists {} more options.\n", name, left_out);
    }
    if (const std::string footer = app->get_footer(); !footer.empty()) {
      text += "\n" + wrap(footer, 0) + "\n";
    }
    return text;
  }

 private:
  GroupExamples examples_;
};

}  // namespace

void add_help(CLI::App& command, const GroupExamples& examples) {
  command.formatter(std::make_shared<GroupedHelp>(examples));
  if (command.get_help_all_ptr() == nullptr) {
    command.set_help_all_flag("--help-all", "all options");
  }
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t first = type.find('{'), last = type.find('}');
  std::vector<std::string> choices;
  if (first == std::string::npos || last == std::string::npos) return choices;
  std::istringstream list(type.substr(first + 1, last - first - 1));
  for (std::string each; std::getline(list, each, ',');) choices.push_back(each);
  return choices;
}

}  // namespace cdt::cli
