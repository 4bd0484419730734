/// The pre-flight of more rows than a kernel can have: from products with it alone, so that each
/// number is exact, bounded or estimated, and says which.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/quadrature.h>
#include <cdt/study/findings.h>

namespace cdt::study {

/// tr Θ(Θ + τI)⁻¹, the effective number of parameters at a decay τ.
struct FreedomAt {
  double decay = 0;  ///< τ, in units of the mean eigenvalue
  dynamics::TraceEstimate freedom;
};

/// How many eigenvalues lie within a decade below λ_max.
struct Decade {
  double from = 0;  ///< in units of λ_max; the decade ends at ten times that
  dynamics::TraceEstimate count;
};

struct LargeFindings {
  int64_t n = 0;
  int64_t samples = 0;
  int64_t outputs = 0;
  int64_t parameters = 0;
  double learning_rate = 0;
  loss::LossPtr loss = loss::mse();
  double q = 0;
  double p = 0;

  double trace = 0;               ///< exact up to rounding
  dynamics::Modes modes;          ///< leading ones, by block Lanczos
  double lambda_max = 0;          ///< no more than the largest eigenvalue, but for rounding
  double lambda_max_bound = 0;    ///< no less (Modes::upper_bound)
  analysis::Stability stability;  ///< bounds that hold
  analysis::Margins margins;      ///< likewise
  double radius_cdt = 1;
  double lr_max = 0;        ///< gradient descent is stable up to here at least,
  double lr_max_above = 0;  ///< and unstable from here on
  double gain_slow_modes = 0;

  /// (tr Θ)²/tr Θ²: how many modes share the kernel, estimated.
  dynamics::TraceEstimate effective_rank;
  std::vector<FreedomAt> freedom;  ///< estimated
  std::vector<Decade> density;     ///< estimated
  dynamics::TraceEstimate below;   ///< eigenvalues below the last decade

  int64_t reachable_at_least = 0;  ///< certain: the rank of the kernel of some rows (interlacing)
  int64_t reachable_at_most = 0;   ///< certain: rows that differ, and parameters
  int64_t sampled_rows = 0;        ///< that it comes from
  int64_t equal_rows = 0;          ///< rows with the inputs of an earlier one
  double initial_loss = 0;
  std::vector<ConflictingRows> conflicts;
  std::string source;

  int64_t products = 0;  ///< of the kernel with vectors
  double seconds = 0;
};

/// Of a quadratic loss. Some 200 products with the kernel, within options.memory_bytes; the same
/// data give the same numbers.
/// @throws InvalidArgument if the loss is not quadratic.
LargeFindings analyze_large(const Problem& problem, const AnalysisOptions& options);

std::string to_text(const LargeFindings& findings);
/// One JSON object with the names of docs/formats.md.
std::string to_json(const LargeFindings& findings);

}  // namespace cdt::study
