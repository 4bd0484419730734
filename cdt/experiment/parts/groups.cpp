#include <cdt/experiment/parts/groups.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace cdt::experiment {
namespace {

bool is_controlled(const Case& what) { return training_method(what.method)->controlled; }

bool can_share(const Plan& plan, const Case& what) {
  const nn::Activation activation = plan.network.activation;
  return training_method(what.method)->blind && plan.loss->quadratic() && !what.traces &&
         plan.architecture(what.architecture).network == nn::NetworkOptions().architecture &&
         (activation == nn::Activation::kRelu || activation == nn::Activation::kTanh);
}

/// Memory of a run in a group: parameters in the network, in the stack and at the start of a
/// stride; samples and gradients kept by layers; the controller and its copy.
double bytes_of(const Plan& plan, const Case& what, const study::Problem& like) {
  const train::TrainData& data = like.data;
  double parameters = 0, units = 0;
  const auto features = static_cast<double>(data.x.numel() / data.x.size(0));
  double width = features;
  const auto add_layer = [&](double next) {
    parameters += (width + 1) * next;
    units += width = next;
  };
  for (const int64_t hidden : plan.architecture(what.architecture).hidden) {
    add_layer(static_cast<double>(hidden * plan.network.width_factor));
  }
  add_layer(static_cast<double>(data.y.size(1)));
  const auto outputs = static_cast<double>(data.y.numel());
  const auto rows = static_cast<double>(data.x.size(0) + data.x_val.size(0));
  const double matrices = is_controlled(what) ? 2 * outputs * outputs * sizeof(double) : 0;
  return (3 * parameters + 2 * rows * (units + features)) *
             static_cast<double>(c10::elementSize(plan.network.dtype)) +
         matrices;
}

}  // namespace

std::vector<std::vector<size_t>> groups_of(const Plan& plan, const std::vector<Case>& cases,
                                           const study::Problem& like, int64_t most) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::tuple<std::string, int64_t, bool>, std::vector<size_t>> shared;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (most > 1 && can_share(plan, cases[i])) {
      shared[{cases[i].architecture, cases[i].steps, is_controlled(cases[i])}].push_back(i);
    } else {
      groups.push_back({i});
    }
  }
  for (auto& [key, members] : shared) {
    std::ranges::stable_sort(members, {}, [&](size_t i) { return cases[i].lr; });
    const double fit =
        static_cast<double>(plan.memory_bytes) / bytes_of(plan, cases[members.front()], like);
    const auto largest = static_cast<size_t>(std::clamp(fit, 1.0, static_cast<double>(most)));
    // As few groups as possible, of equal sizes except one.
    const size_t count = (members.size() + largest - 1) / largest;
    for (size_t k = 0; k < count; ++k) {
      const auto at = [&](size_t part) {
        return members.begin() + static_cast<std::ptrdiff_t>(part * members.size() / count);
      };
      groups.emplace_back(at(k), at(k + 1));
    }
  }
  std::ranges::sort(groups, {}, [](const auto& group) { return std::ranges::min(group); });
  return groups;
}

}  // namespace cdt::experiment
