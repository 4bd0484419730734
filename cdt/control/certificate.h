/// The certificate of a controller: its guarantees on the linearization for which it was designed.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <torch/types.h>

#include <initializer_list>
#include <limits>
#include <string>

namespace cdt::control {

/// A number that is known exactly, or only up to two bounds.
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
  std::string optimal;     ///< the cost that it minimizes; empty: unknown
  double rate = std::numeric_limits<double>::quiet_NaN();  ///< α; NaN: the controller has no rate
  /// Factor by which it scales the slowest errors before descent acts on them; 1: plain descent.
  double gain = std::numeric_limits<double>::quiet_NaN();
  /// Residual of the equation that it solves (the Riccati equation, or that of the step),
  /// recomputed; NaN if unknown.
  double residual = std::numeric_limits<double>::quiet_NaN();
  Known radius;  ///< max |closed loop| on reachable modes: what a step leaves of the slowest error
  Known kernel_margin;     ///< stable while the kernel grows by less than this factor
  Known overshoot_margin;  ///< no error changes its sign while it grows by less than this
  Known gain_margin;  ///< [lower, upper]: stable while label augments are scaled by a factor within
  Known guaranteed_margin;  ///< the part that the Riccati equation guarantees for any such gain
  std::string digest;       ///< digest of the numbers that define the steering
  /// For each mode, ascending: eigenvalue, step s, gain g(s) − 1 and closed-loop factor, [4, m].
  /// For a gain matrix, whose loop has other modes than the kernel: the gains are NaN, and the
  /// factors are those of the loop, in descending order of size. Undefined if not requested or
  /// unknown.
  torch::Tensor spectrum{};

  bool empty() const { return controller.empty(); }
  /// The fields of run.json (docs/formats.md); unknown numbers are null.
  void fields(Fields& f);
};

/// Certificate of a damped solve, which minimizes ‖e⁺‖² + μ‖δ‖² and leaves μ/(λ + μ) of a mode.
/// `largest` and `smallest` are the eigenvalues of the kernel on the reachable subspace.
Certificate damped_certificate(double mu, const Known& largest, const Known& smallest);

/// The same if all eigenvalues [n] are known, ascending; no label moves the first `nullity`. The
/// certificate is exact and has a spectrum. `step_scale` = αc.
Certificate damped_certificate(double mu, const torch::Tensor& eigenvalues, int64_t nullity,
                               double step_scale);

/// 16 hexadecimal digits that change with any bit of the numbers or their order; the same on any
/// device.
std::string digest_of(std::initializer_list<torch::Tensor> numbers);

/// The factors δ on label augments for which every mode is stable: −1 < 1 − s − δsk < 1, for steps
/// s > 0 and gains k [m], float64.
Known augment_interval(const torch::Tensor& s, const torch::Tensor& k);

}  // namespace cdt::control
