#include <cdt/analysis/reachability.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cdt::analysis {
namespace {

using torch::Tensor;

/// A twin has at least half of its unit vector in the null space, up to rounding.
constexpr double kTwinShare = 0.4;
/// Twins differ by no more than this share of their own features.
constexpr double kTwinDistance = 1e-4;
/// Dependent samples below this share of the largest one's part in a null direction are not named.
constexpr double kNamedShare = 0.1;
constexpr int64_t kMostSteps = 100000;

void require_error(const dynamics::Modes& modes, const Tensor& error) {
  dynamics::require_complete(modes, "what labels can do");
  require_shape(error, {modes.size()}, "error");
  CDT_REQUIRE(error.scalar_type() == torch::kFloat64, "error must be float64, got ",
              error.scalar_type());
  require_finite(error, "error");
}

/// Samples whose outputs no parameter moves.
std::vector<int64_t> frozen_samples(const Tensor& theta, const dynamics::Modes& modes,
                                    int64_t outputs) {
  const Tensor sizes = theta.diagonal().reshape({-1, outputs}).amax(1).cpu();
  const double cut = modes.rank_tolerance * modes.largest();
  std::vector<int64_t> frozen;
  for (int64_t i = 0; i < sizes.size(0); ++i) {
    if (sizes[i].item<double>() <= cut) frozen.push_back(i);
  }
  return frozen;
}

/// Groups of samples whose features coincide: Θ_ii + Θ_jj − 2Θ_ij = ‖J_i − J_j‖² is zero for each
/// output.
std::vector<std::vector<int64_t>> duplicates(const Tensor& theta, const dynamics::Modes& modes,
                                             int64_t outputs, const std::vector<int64_t>& frozen) {
  const int64_t samples = theta.size(0) / outputs;
  const Tensor diagonal = theta.diagonal();
  const double cut = modes.rank_tolerance * modes.largest();
  const Tensor share = modes.null_vectors().square().sum(1).view({samples, outputs}).amax(1).cpu();
  std::vector<int64_t> candidates;
  for (int64_t i = 0; i < samples; ++i) {
    const bool moves = std::find(frozen.begin(), frozen.end(), i) == frozen.end();
    if (moves && share[i].item<double>() > kTwinShare) candidates.push_back(i);
  }
  std::vector<std::vector<int64_t>> groups;
  std::vector<bool> taken(candidates.size(), false);
  for (size_t a = 0; a < candidates.size(); ++a) {
    if (taken[a]) continue;
    const int64_t i = candidates[a];
    Tensor twins = torch::ones({samples}, theta.options().dtype(torch::kBool));
    for (int64_t c = 0; c < outputs; ++c) {
      const int64_t row = i * outputs + c;
      const Tensor sizes = (diagonal + diagonal[row]).view({samples, outputs}).select(1, c);
      const Tensor distance = sizes - 2 * theta[row].view({samples, outputs}).select(1, c);
      // d² ≤ 2·cut: the direction (e_i − e_j)/√2 then has a Rayleigh quotient that counts as zero.
      twins = twins & (distance <= 2 * cut) & (distance <= kTwinDistance * sizes);
    }
    twins = twins.cpu();
    std::vector<int64_t> group{i};
    for (size_t b = a + 1; b < candidates.size(); ++b) {
      if (!taken[b] && twins[candidates[b]].item<bool>()) {
        group.push_back(candidates[b]);
        taken[b] = true;
      }
    }
    if (group.size() > 1) groups.push_back(std::move(group));
  }
  return groups;
}

/// Orthonormal directions that are explained: frozen samples, and within each group, for each
/// output, everything orthogonal to the mean.
Tensor explained_directions(const std::vector<int64_t>& frozen,
                            const std::vector<std::vector<int64_t>>& groups, int64_t outputs,
                            const Tensor& like) {
  std::vector<Tensor> columns;
  const auto add_column = [&]() {
    columns.push_back(torch::zeros({like.size(0)}, like.options().device(torch::kCPU)));
    return columns.back();
  };
  for (int64_t c = 0; c < outputs; ++c) {
    for (int64_t i : frozen) add_column()[i * outputs + c] = 1;
    for (const auto& group : groups) {
      for (size_t k = 1; k < group.size(); ++k) {  // Helmert's contrasts
        Tensor column = add_column();
        const double norm = std::sqrt(static_cast<double>(k * (k + 1)));
        for (size_t j = 0; j < k; ++j) column[group[j] * outputs + c] = 1 / norm;
        column[group[k] * outputs + c] = -static_cast<double>(k) / norm;
      }
    }
  }
  return columns.empty() ? torch::zeros({like.size(0), 0}, like.options())
                         : torch::stack(columns, 1).to(like.device());
}

double label_gap(const std::vector<int64_t>& group, const Tensor& labels) {
  const Tensor rows = labels.index_select(0, torch::tensor(group).to(labels.device()));
  return (rows.amax(0) - rows.amin(0)).max().item<double>();
}

}  // namespace

Reachability assess_reachability(const dynamics::Modes& modes) {
  dynamics::require_complete(modes, "what labels can do");
  const double largest = modes.largest();
  return {control::Known::exactly(static_cast<double>(modes.rank)), modes.rank == modes.size(),
          largest > 0 ? std::max(0.0, modes.smallest) / largest : 0.0};
}

Stabilizability assess_stabilizability(const dynamics::Modes& modes, const Tensor& error) {
  require_error(modes, error);
  const double stuck = modes.null_vectors().t().mv(error).norm().item<double>();
  return {stuck <= tol::kUnreachableError * error.norm().item<double>(), stuck};
}

std::string to_string(Conflict::Kind kind) {
  switch (kind) {
    case Conflict::Kind::kDuplicateEqual:
      return "duplicate-equal";
    case Conflict::Kind::kDuplicateConflict:
      return "duplicate-conflict";
    case Conflict::Kind::kDuplicate:
      return "duplicate";
    case Conflict::Kind::kFrozen:
      return "frozen";
    case Conflict::Kind::kDependent:
      return "dependent";
  }
  throw InvalidArgument(c10::str("no kind of conflict has the number ", static_cast<int>(kind)));
}

std::vector<Conflict> trace_unreachable(const Tensor& theta, const dynamics::Modes& modes,
                                        int64_t outputs, const std::optional<Tensor>& labels) {
  dynamics::require_complete(modes, "what labels can do");
  const int64_t n = modes.size();
  require_shape(theta, {n, n}, "kernel");
  CDT_REQUIRE(outputs >= 1 && n % outputs == 0, "a kernel of ", n, " rows cannot have ", outputs,
              " outputs a sample");
  std::vector<Conflict> conflicts;
  if (modes.nullity() == 0) return conflicts;
  Tensor by_sample;
  if (labels) {
    require_error(modes, *labels);
    by_sample = labels->view({n / outputs, outputs});
  }
  const auto frozen = frozen_samples(theta, modes, outputs);
  if (!frozen.empty()) {
    conflicts.push_back({frozen, Conflict::Kind::kFrozen});
    if (labels) conflicts.back().label_gap = label_gap(frozen, by_sample);
  }
  const auto groups = duplicates(theta, modes, outputs, frozen);
  for (const auto& group : groups) {
    Conflict conflict{group, Conflict::Kind::kDuplicate};
    if (labels) {
      conflict.label_gap = label_gap(group, by_sample);
      const double size = by_sample.abs().max().item<double>();
      conflict.kind = conflict.label_gap <= tol::kUnreachableError * size
                          ? Conflict::Kind::kDuplicateEqual
                          : Conflict::Kind::kDuplicateConflict;
    }
    conflicts.push_back(std::move(conflict));
  }

  const Tensor explained = explained_directions(frozen, groups, outputs, theta);
  if (explained.size(1) >= modes.nullity()) return conflicts;
  const Tensor null = modes.null_vectors();
  const Tensor rest = null - explained.mm(explained.t().mm(null));
  const Tensor share = rest.square().sum(1).view({n / outputs, outputs}).sum(1).cpu();
  Conflict dependent{{}, Conflict::Kind::kDependent};
  for (int64_t i = 0; i < share.size(0); ++i) {
    if (share[i].item<double>() >= kNamedShare * share.max().item<double>()) {
      dependent.rows.push_back(i);
    }
  }
  if (labels && !dependent.rows.empty()) dependent.label_gap = label_gap(dependent.rows, by_sample);
  conflicts.push_back(std::move(dependent));
  return conflicts;
}

void Conflict::fields(Fields& f) {
  if (lines.empty()) {
    f("rows", rows);
  } else {
    f("lines", lines);
  }
  std::string name = to_string(kind);
  f("kind", name);
  if (lines.empty()) f("label_gap", label_gap);
}

void InputCondition::fields(Fields& f) {
  f("holds", holds);
  f("largest_norm", largest_norm);
  f("largest_norm_row", largest_row);
  f("largest_cosine", largest_cosine);
  std::vector<int64_t> pair{first_row, second_row};
  f("largest_cosine_rows", pair);
}

InputCondition assess_inputs(const Tensor& inputs) {
  require_floating(inputs, "inputs");
  CDT_REQUIRE(inputs.dim() >= 1 && inputs.numel() > 0, "inputs must hold at least one sample");
  require_finite(inputs, "inputs");
  constexpr int64_t kBlock = 1024;
  const int64_t samples = inputs.size(0);
  const Tensor x = inputs.detach().reshape({samples, -1}).to(torch::kFloat64);
  const Tensor norms = x.norm(2, 1);
  const Tensor directions = x / norms.clamp_min(std::numeric_limits<double>::min()).unsqueeze(1);
  InputCondition condition;
  condition.largest_row = norms.argmax().item<int64_t>();
  condition.largest_norm = norms[condition.largest_row].item<double>();
  for (int64_t i = 0; i < samples; i += kBlock) {
    const int64_t rows = std::min(kBlock, samples - i);
    const Tensor later = directions.narrow(0, i, samples - i);
    const Tensor cosines = directions.narrow(0, i, rows).mm(later.t()).abs_().triu_(1);
    const int64_t at = cosines.argmax().item<int64_t>();
    const double cosine = cosines.view(-1)[at].item<double>();
    if (cosine > condition.largest_cosine) {
      condition.largest_cosine = cosine;
      condition.first_row = i + at / (samples - i);
      condition.second_row = i + at % (samples - i);
    }
  }
  const auto dtype = inputs.scalar_type();
  const bool parallel = condition.largest_cosine >= 1 - tol::parallel(dtype);
  const bool null_input = norms.min().item<double>() == 0;
  condition.holds = !parallel && !null_input && condition.largest_norm <= 1 + tol::unit_ball(dtype);
  return condition;
}

LabelSequence reach_labels(const dynamics::Modes& modes, double step_scale, const Tensor& error,
                           int64_t steps) {
  require_error(modes, error);
  require_positive(step_scale, "step_scale");
  CDT_REQUIRE(steps >= 1 && steps <= kMostSteps, "steps must be from 1 to ", kMostSteps, ", got ",
              steps);
  LabelSequence sequence;
  sequence.unreachable_error = assess_stabilizability(modes, error).stuck_error;
  const Tensor V = modes.reachable_vectors();
  const Tensor s = modes.reachable_values() * step_scale;
  const Tensor a = (1 - s).unsqueeze(0);  // [1, rank]
  const Tensor modal = V.t().mv(error);

  // Mode by mode 0 = aᶠe + Σ_j a^(f−1−j) s u_j; the least-squares answer is u_j = −a^(f−1−j)·aᶠe /
  // (s Σ_m a^(2m)). Where |a| > 1 numerator and denominator are divided by a^(2f−2), so that
  // neither overflows.
  const Tensor power = torch::arange(steps, s.options()).unsqueeze(1);  // [f, 1]
  const Tensor grows = a.abs() > 1;
  const Tensor shrinking = torch::where(grows, 1 / a, a);
  const Tensor energy =
      shrinking.square().pow(power).sum(0, true);  // Σ a^(2m), scaled where it grows
  // a^(f−1−j)·a^f for a decaying mode; divided by a^(2f−2) it is a^(1−j) for a growing one.
  const Tensor shape = torch::where(grows, a * shrinking.pow(power),
                                    a.pow(static_cast<double>(steps)) * a.pow(steps - 1 - power));
  const Tensor inputs = -shape * modal / (s * energy);  // [f, rank]
  sequence.augments = inputs.mm(V.t());
  sequence.size = inputs.norm().item<double>();
  return sequence;
}

}  // namespace cdt::analysis
