/// Chooses the solver of a step (ridge.h), by operation count and memory.
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/loop/residuals.h>
#include <cdt/train/setup.h>

#include <string>

namespace cdt::train {

/// Sizes that determine the choice.
struct FormSizes {
  int64_t samples = 0;         ///< r
  int64_t outputs = 1;         ///< n_L
  int64_t per_sample = 1;      ///< k, residuals per sample
  int64_t parameters = 0;      ///< P
  int64_t width = 0;           ///< inputs plus outputs of all layers
  bool one_row_kernel = true;  ///< one D for all samples: a row of K per residual costs a row of Θ
  int64_t memory_bytes = int64_t{2} << 30;
  int64_t ranks = 1;  ///< number of ranks that share the samples
  bool path = true;   ///< path steps, not guarded steps
  int64_t batch = 0;  ///< samples per batch, for form batch; 0: default

  /// Operations of a recorded pass over all rows, and of one product with J plus one with Jᵀ.
  double factor_pass() const;
  double product() const;
  int64_t residuals() const { return samples * per_sample; }
  int64_t batch_samples() const { return batch_rows(batch, samples, per_sample); }
};
/// Sizes for `samples` samples in total, with n_L outputs each.
FormSizes form_sizes(const kernel::Model& model, const loss::LossPtr& loss, int64_t samples,
                     int64_t outputs, int64_t memory_bytes);
/// Sizes of the samples of step k of a run, over all ranks.
FormSizes form_sizes(const Setup& setup, int64_t step = 0);

/// Cost of one step of a form; for form batch, of an epoch.
struct FormCost {
  double operations = 0;  ///< float64 operations count twice
  double bytes = 0;       ///< memory of the matrices
};
/// Cost of the kernel of `residuals` residuals and its factor.
FormCost dense_cost(double residuals, const FormSizes& sizes);
FormCost form_cost(const Form& form, const FormSizes& sizes);

/// A matrix, a copy with a shifted diagonal, and a factor.
inline constexpr double kMatricesOfASolve = 3;
/// Operations of a recorded forward pass, the gradients at the layers and the checks of both, on
/// all samples, in units of rP.
inline constexpr double kFactorPasses = 12;

/// The largest number of CPU threads that the steps of a form can use well; 0: any number. A batch
/// is hundreds of small operations in sequence, and threads synchronize at each of them: if one
/// thread needs only milliseconds for a batch, more threads mostly wait.
int most_threads(const Form& form, const FormSizes& sizes);

/// The same for an optimizer's steps with dense layers, whose batches are even smaller.
int most_threads_of_a_gradient(const FormSizes& sizes);

struct FormChoice {
  Form form = "auto";
  int64_t sketch_rows = 0;  ///< rows of the first sketch
  int64_t batch_rows = 0;   ///< for form batch
  std::string why;          ///< explanation for the user
};

/// Returns `wanted`; for auto, the dual form up to kMostDual residuals; otherwise the primal form,
/// if it takes at most kExactIsWorth times the operations of a sketch; otherwise the sketch. For a
/// path with several classes, where a sketch has few rows for its residuals, the form free; guarded
/// steps with several classes use the sketch, since their damping, 10⁻⁵ of the norm, would need too
/// many products without it. Matrices must fit the memory.
/// Form batch is never chosen here: its steps have no certificate, and only whole epochs are
/// judged. The goal predict may choose it earlier (study::decide).
/// @throws InvalidArgument if the wanted form does not fit the memory, or uses one kernel or
///   batches and several ranks share the rows.
FormChoice choose_form(const Form& wanted, const FormSizes& sizes);

/// Rows of the next sketch after the product limit ended a solve with this one: twice as many, at
/// most kMostSketchResiduals residuals, for `samples` samples with n_L outputs each.
int64_t more_sketch_rows(int64_t rows, int64_t samples, int64_t outputs);

inline constexpr int64_t kMostSketchResiduals = 4000;
inline constexpr int64_t kSketchResiduals = 2000;
inline constexpr int64_t kMostDual = 5000;
inline constexpr double kExactIsWorth = 4;

}  // namespace cdt::train
