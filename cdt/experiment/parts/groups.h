/// Groups runs of a sweep that are trained as one (train/together.h).
#pragma once

#include <cdt/experiment/plan.h>

#include <vector>

namespace cdt::experiment {

/// This many networks of some hundred units fill a GPU.
inline constexpr int64_t kMostTogether = 40;

/// Groups of cases, as indices into `cases`, trained as one: single, or up to `most` of one
/// architecture and length by gd, gd-matched and gd-best, or by cdt, with a quadratic loss, without
/// traces, as many as fit plan.memory_bytes. Cases of similar rates are grouped, since they diverge
/// together, if at all. Only fully connected networks with ReLU or tanh; one convolutional network
/// fills the device. `like` has the samples of a run. Ordered by the first case of each group.
std::vector<std::vector<size_t>> groups_of(const Plan& plan, const std::vector<Case>& cases,
                                           const study::Problem& like, int64_t most);

}  // namespace cdt::experiment
