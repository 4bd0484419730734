/// What a controller promises on the linearization that it was designed for.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <torch/types.h>

#include <initializer_list>
#include <limits>
#include <string>

namespace cdt::control {

/// A number as far as it is known: exactly, or between two bounds.
struct Known {
  double value = std::numeric_limits<double>::quiet_NaN();  ///< NaN: only the bounds are known
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();

  static Known exactly(double value) { return {value, value, value}; }
  static Known within(double lower, double upper) {
    return {std::numeric_limits<double>::quiet_NaN(), lower, upper};
  }
  bool exact() const { return lower == upper; }
  void fields(Fields& f);
  bool bounded() const {
    return lower > -std::numeric_limits<double>::infinity() ||
           upper < std::numeric_limits<double>::infinity();
  }
};

struct Certificate {
  std::string controller;  ///< law or gain, and how it is applied: "lqr q=1 p=0.1, mode by mode"
  std::string optimal;     ///< what it makes least; empty: nothing is known
  double rate = std::numeric_limits<double>::quiet_NaN();  ///< α; NaN: it has none
  /// What it multiplies the slowest errors by, as seen by descent: 1 is plain descent.
  double gain = std::numeric_limits<double>::quiet_NaN();
  /// Residual of the equation that it solves (Riccati's, or the step's), recomputed; NaN if
  /// unknown.
  double residual = std::numeric_limits<double>::quiet_NaN();
  Known radius;  ///< max |closed loop| on reachable modes: what a step leaves of the slowest error
  Known kernel_margin;     ///< stable while the kernel grows by less than this factor
  Known overshoot_margin;  ///< no error changes its sign while it grows by less than this
  Known gain_margin;  ///< [lower, upper]: stable while label augments are scaled by a factor within
  Known guaranteed_margin;  ///< of which Riccati's equation promises so much of any such gain
  std::string digest;       ///< of the numbers that it steers with
  /// Of each mode, ascending: eigenvalue, step s, gain g(s) − 1 and what is left of it, [4, m]. Of
  /// a gain matrix, whose loop has other modes than the kernel: no gain (NaN), and its own factors
  /// by size, descending. Undefined unless it was asked for, and known.
  torch::Tensor spectrum{};

  bool empty() const { return controller.empty(); }
  /// As run.json has it (docs/formats.md); what is not known is null.
  void fields(Fields& f);
};

/// For a damped solve, which leaves μ/(λ + μ) of a mode: the least of ‖e⁺‖² + μ‖δ‖². `largest` and
/// `smallest` are the eigenvalues of the kernel on what labels can move.
Certificate damped_certificate(double mu, const Known& largest, const Known& smallest);

/// The same where all eigenvalues are known [n], ascending, the first `nullity` of which no label
/// moves: exact, and with its spectrum. `step_scale` = αc.
Certificate damped_certificate(double mu, const torch::Tensor& eigenvalues, int64_t nullity,
                               double step_scale);

/// 16 hexadecimal digits that change with any bit of these, in this order; on any device.
std::string digest_of(std::initializer_list<torch::Tensor> numbers);

/// The interval of factors on label augments in which every mode is stable: −1 < 1 − s − δsk < 1,
/// for steps s > 0 and gains k [m], float64.
Known augment_interval(const torch::Tensor& s, const torch::Tensor& k);

}  // namespace cdt::control
