/// What kernels cost, estimated before anything is computed.
#pragma once

#include <cdt/study/problem.h>

namespace cdt::study {

/// Of the kernel of n outputs. Seconds are those of two CPU cores (5·10¹⁰ operations in float64),
/// or of a GPU; the same on every machine of a kind, so that what is chosen by them is.
struct KernelCost {
  int64_t outputs = 0;          ///< n, samples × targets
  double kernel_seconds = 0;    ///< Θ itself
  double factor_seconds = 0;    ///< a Cholesky factorization of it
  double spectrum_seconds = 0;  ///< its eigendecomposition
  int64_t bytes = 0;            ///< of Θ, its eigenvectors and what finding them needs
};

/// Of so many samples of the problem.
KernelCost kernel_cost(const Problem& problem, int64_t samples);

/// In words: "some 40 s and 1.6 GB".
std::string to_text(const KernelCost& cost);

/// Whether the kernel of all samples, if the method linearizes, takes at most 5 s at each step (30
/// s if there is but one), and no more memory than `training` allows.
bool kernel_fits(const Problem& problem, const train::TrainOptions& training);

/// Whether a run of the form auto solves its steps by another, since its kernel does not fit: on
/// classes, or with weights, by guarded steps that find their own rate.
bool takes_form(const Problem& problem, const train::TrainOptions& training);

/// Samples a step where nobody has chosen: all (0), or, where the kernel of all does not fit and no
/// form is taken, so many that a linearization takes a second or so. By the form batch the usual
/// number.
int64_t usual_batch(const Problem& problem, const train::TrainOptions& training);

/// The most training rows whose kernel and spectrum take half a minute at most, within the memory.
int64_t most_rows_to_analyze(const Problem& problem, int64_t memory_bytes);

/// Of a trial (AnalysisOptions::trial_steps) of a network for pictures; others take no time worth
/// asking for: 0.
double trial_seconds(const Problem& problem, int64_t steps);

/// The problem of its first `rows` training rows, which the split has drawn at random (of a split
/// by time they are the earliest); validation rows stay.
Problem first_rows(const Problem& problem, int64_t rows);

}  // namespace cdt::study
