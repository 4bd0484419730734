/// Which runs of a sweep are trained as one (train/together.h).
#pragma once

#include <cdt/experiment/plan.h>

#include <vector>

namespace cdt::experiment {

/// As many networks of some hundred units fill a GPU.
inline constexpr int64_t kMostTogether = 40;

/// The cases, as numbers into `cases`, that are trained at a time: alone, or up to `most` of one
/// architecture and length by gd, gd-matched and gd-best, or by cdt, under a quadratic loss,
/// without traces, as many as fit plan.memory_bytes. Those of like rates go together, since they
/// diverge together, if they do. Only fully connected networks with ReLU or tanh: one with
/// convolutions fills the device by itself. `like` has the samples of a run. In the order of the
/// cases that are first in each.
std::vector<std::vector<size_t>> groups_of(const Plan& plan, const std::vector<Case>& cases,
                                           const study::Problem& like, int64_t most);

}  // namespace cdt::experiment
