/// Which solver a step takes (ridge.h), by operations and memory.
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/loop/residuals.h>
#include <cdt/train/setup.h>

#include <string>

namespace cdt::train {

/// What decides.
struct FormSizes {
  int64_t samples = 0;         ///< r
  int64_t outputs = 1;         ///< n_L
  int64_t per_sample = 1;      ///< k, residuals a sample
  int64_t parameters = 0;      ///< P
  int64_t width = 0;           ///< what goes into the layers and comes out of them, together
  bool one_row_kernel = true;  ///< one D for all samples: K costs a row of Θ a residual
  int64_t memory_bytes = int64_t{2} << 30;
  int64_t ranks = 1;  ///< that share the samples
  bool path = true;   ///< points of a path, not guarded steps
  int64_t batch = 0;  ///< samples of a batch, of the form of batches; 0: the usual number

  /// Operations of a recorded pass over all rows, and of a product with J and one with Jᵀ.
  double factor_pass() const;
  double product() const;
  int64_t residuals() const { return samples * per_sample; }
  int64_t batch_samples() const { return batch_rows(batch, samples, per_sample); }
};
/// Of so many samples in all, with n_L outputs each.
FormSizes form_sizes(const kernel::Model& model, const loss::LossPtr& loss, int64_t samples,
                     int64_t outputs, int64_t memory_bytes);
/// Of what step k of a run sees, on all ranks.
FormSizes form_sizes(const Setup& setup, int64_t step = 0);

/// Of one step of each form; of batches, an epoch.
struct FormCost {
  double operations = 0;  ///< those in float64 count twice
  double bytes = 0;       ///< of matrices
};
/// Of the kernel of so many residuals and its factor.
FormCost dense_cost(double residuals, const FormSizes& sizes);
FormCost form_cost(const Form& form, const FormSizes& sizes);

/// A matrix, a copy with its diagonal moved, and a factor.
inline constexpr double kMatricesOfASolve = 3;
/// Of all samples, in units of rP: a recorded forward pass, gradients at the layers, and the checks
/// of both.
inline constexpr double kFactorPasses = 12;

/// The most CPU threads that steps of a form have use for; 0: any number. A batch is hundreds of
/// small operations, one after another, and at each of them threads meet: where all of a batch
/// takes one thread some milliseconds, others would mostly wait.
int most_threads(const Form& form, const FormSizes& sizes);

/// The same of an optimizer's steps with dense layers, whose batches are smaller still.
int most_threads_of_a_gradient(const FormSizes& sizes);

struct FormChoice {
  Form form = "auto";
  int64_t sketch_rows = 0;  ///< to begin with
  int64_t batch_rows = 0;   ///< of the form batch
  std::string why;          ///< in words
};

/// `wanted`, or if that is auto: the kernel up to kMostDual residuals; else the Gram matrix of the
/// parameters, if that takes at most kExactIsWorth times the operations of a sketch; else the
/// sketch. Of a path of several classes, where a sketch has few rows for its residuals, products
/// alone; guarded steps of them take it, since a damping that is 10⁻⁵ of the norm wants too many.
/// Matrices must fit the memory.
/// Batches are never chosen here: its steps promise nothing, and only whole epochs are judged. The
/// goal predict may choose it before (study::decide).
/// @throws InvalidArgument if the form that is wanted does not fit the memory, or takes one
///   kernel or batches and rows are shared by several ranks.
FormChoice choose_form(const Form& wanted, const FormSizes& sizes);

/// Of the next sketch where products of this one ran out: as many rows again, up to
/// kMostSketchResiduals, of so many samples with n_L outputs.
int64_t more_sketch_rows(int64_t rows, int64_t samples, int64_t outputs);

inline constexpr int64_t kMostSketchResiduals = 4000;
inline constexpr int64_t kSketchResiduals = 2000;
inline constexpr int64_t kMostDual = 5000;
inline constexpr double kExactIsWorth = 4;

}  // namespace cdt::train
