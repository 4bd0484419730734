#include <cdt/control/designs/designs.h>
#include <cdt/core/check.h>
#include <fmt/format.h>

#include <algorithm>

namespace cdt::control {

std::vector<Design> designs() { return {lqr_design(), damped_design(), descent_design()}; }

std::vector<std::string> design_names() {
  std::vector<std::string> names;
  for (const Design& each : designs()) names.push_back(each.name);
  return names;
}

void require_design(std::string_view name, const std::vector<Design>& table) {
  std::string known;
  for (const Design& each : table) {
    if (each.name == name) return;
    known += (known.empty() ? "" : ", ") + each.name;
  }
  throw InvalidArgument(fmt::format("a controller must be one of {}, got '{}'", known, name));
}

std::unique_ptr<Controller> design(const Plant& plant, const ControlProblem& problem,
                                   std::string_view name, const std::vector<Design>& table) {
  require_design(name, table);
  return std::ranges::find(table, name, &Design::name)->make(plant, problem);
}

void require_scalar_weights(const ControlProblem& problem, std::string_view name) {
  CDT_REQUIRE(!problem.Q.defined() && !problem.R.defined() && !problem.shape, "the design ", name,
              " takes numbers q and p alone, no Q, R or shape; lqr does");
}

}  // namespace cdt::control
