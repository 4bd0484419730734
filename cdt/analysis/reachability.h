/// What labels can and cannot do: reachability (paper eq. reachability), stabilizability, and the
/// samples behind a loss of either.
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/dynamics/modes.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace cdt::analysis {

/// The PBH test of A = I − S, B = S: in the eigenbasis [zI − A, B] loses rank exactly at null
/// directions of Θ.
struct Reachability {
  control::Known rank;     ///< how many directions labels can move
  bool reachable = false;  ///< rank = n
  double margin = 0;       ///< λ_min / λ_max, as computed; the distance to losing rank
};

Reachability assess_reachability(const dynamics::Modes& modes);

/// Each null direction v carries an error vᵀe that no label can move.
struct Stabilizability {
  bool stabilizable = false;  ///< that error is zero (tol::kUnreachableError of ‖e‖)
  double stuck_error = 0;     ///< ‖V_nullᵀe‖: what training leaves at best
};

/// @throws InvalidArgument unless e is [n], float64 and finite.
Stabilizability assess_stabilizability(const dynamics::Modes& modes, const torch::Tensor& error);

/// Samples that the network cannot tell apart, or whose outputs depend on each other.
struct Conflict {
  enum class Kind {
    kDuplicateEqual,     ///< one input several times, one label: harmless
    kDuplicateConflict,  ///< one input, different labels: a data error worth a minute
    kDuplicate,          ///< one input several times, labels not given
    kFrozen,             ///< no parameter moves their outputs (dead units, say)
    kDependent,  ///< linearly dependent without being duplicates: the network is too small for them
  };
  std::vector<int64_t> rows;  ///< samples, from 0, ascending
  Kind kind = Kind::kDuplicate;
  /// The largest difference between two labels of the group; NaN if labels were not given.
  double label_gap = std::numeric_limits<double>::quiet_NaN();
  /// Of rows that are equal in a file, found there rather than in the kernel: their lines, from 1,
  /// instead of `rows`, and how their labels differ, in words.
  std::vector<int64_t> lines{};
  std::string difference{};

  void fields(Fields& f);
};

std::string to_string(Conflict::Kind kind);

/// Traces the null directions of Θ [n, n] to samples (`outputs` per sample): frozen samples and
/// groups of duplicates first, then at most one group of dependent samples, those with the largest
/// share in what remains. Empty if the kernel has full rank. `labels` [n] if known.
std::vector<Conflict> trace_unreachable(const torch::Tensor& theta, const dynamics::Modes& modes,
                                        int64_t outputs,
                                        const std::optional<torch::Tensor>& labels);

/// The paper's sufficient condition for a positive definite kernel: no two inputs parallel, all in
/// the unit ball.
struct InputCondition {
  bool holds = false;
  double largest_norm = 0;
  int64_t largest_row = 0;
  double largest_cosine = 0;  ///< largest |cos| of the angle between two inputs; 0 for a single one
  int64_t first_row = 0;      ///< of that pair
  int64_t second_row = 0;

  void fields(Fields& f);
};

/// Inputs [r, …], flattened per sample. O(r²·features), in row blocks.
/// @throws InvalidArgument if empty or not finite.
InputCondition assess_inputs(const torch::Tensor& inputs);

/// The smallest sequence of label augments (in Σ‖y_u‖²) that brings the local model from e to 0 in
/// f steps.
struct LabelSequence {
  torch::Tensor augments;        ///< y_u [f, n]
  double size = 0;               ///< √Σ‖y_u(k)‖²
  double unreachable_error = 0;  ///< ‖e‖ on null directions, which stays
};

/// `step_scale` = α c_L. O(n²·f), and f·n numbers: at most 10⁵ steps.
/// @throws InvalidArgument unless 1 ≤ f ≤ 10⁵, step_scale > 0, e [n] float64 and finite.
LabelSequence reach_labels(const dynamics::Modes& modes, double step_scale,
                           const torch::Tensor& error, int64_t steps);

}  // namespace cdt::analysis
