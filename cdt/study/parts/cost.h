/// Estimates the cost of kernels before anything is computed.
#pragma once

#include <cdt/study/problem.h>

namespace cdt::study {

/// Cost of the kernel of n outputs. Seconds are those of two CPU cores (5·10¹⁰ operations in
/// float64), or of a GPU, the same on every machine of a kind, so that choices based on them are
/// reproducible.
struct KernelCost {
  int64_t outputs = 0;          ///< n, samples × targets
  double kernel_seconds = 0;    ///< Θ itself
  double factor_seconds = 0;    ///< its Cholesky factorization
  double spectrum_seconds = 0;  ///< its eigendecomposition
  int64_t bytes = 0;            ///< of Θ, its eigenvectors and workspace
};

/// For this many samples of the problem.
KernelCost kernel_cost(const Problem& problem, int64_t samples);

/// Description: "some 40 s and 1.6 GB".
std::string to_text(const KernelCost& cost);

/// Whether the kernel of all samples, if the method linearizes, takes at most 5 s per step (30 s if
/// there is only one), and no more memory than `training` allows.
bool kernel_fits(const Problem& problem, const train::TrainOptions& training);

/// Whether a run with the solver auto uses another solver than the kernel, which does not fit: for
/// classes, or with weights, by guarded steps that choose their own rate.
bool takes_form(const Problem& problem, const train::TrainOptions& training);

/// Default number of samples per step: all (0); if the kernel of all does not fit and no other
/// solver is used, as many as a linearization of about a second allows. For the solver batch its
/// own default.
int64_t usual_batch(const Problem& problem, const train::TrainOptions& training);

/// Maximum number of training rows whose kernel and spectrum take at most half a minute and fit the
/// memory.
int64_t most_rows_to_analyze(const Problem& problem, int64_t memory_bytes);

/// Seconds of a trial (AnalysisOptions::trial_steps) of a network for pictures; 0 for others, which
/// take little time.
double trial_seconds(const Problem& problem, int64_t steps);

/// The problem restricted to its first `rows` training rows, which the split has drawn at random (a
/// split by time: the earliest); validation rows are kept.
Problem first_rows(const Problem& problem, int64_t rows);

}  // namespace cdt::study
