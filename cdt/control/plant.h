/// The plant of a controller: one linearization, x⁺ = x − S(x − u), S = αc(M + (d/c)I).
///
/// x are the errors in coordinates that make the loop symmetric: e = ŷ − y for quadratic losses,
/// W^½e with weights, H^½(z − z_e) for classes (loss/class_coordinates.h). M is the kernel in these
/// coordinates, α the rate, c the factor of the loss's gradient and d the weight decay.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/kernel_result.h>
#include <cdt/dynamics/modes.h>
#include <cdt/loss/class_coordinates.h>
#include <cdt/loss/loss.h>

#include <memory>

namespace cdt::control {

/// One linearization. Copies share computed results, also across threads.
class Plant {
 public:
  struct Options {
    double gradient_factor = 1;  ///< c, or c·r
    double rate = 1;             ///< α
    double decay = 0;            ///< d
    double samples = 1;          ///< r, if c is a mean over samples; the division is done last
  };

  /// The plant of gradient descent at `rate`, from the result of kernel::empirical_ntk. For a
  /// quadratic loss, x = ŷ − y for any labels. The cross entropy needs labels [r, C],
  /// distributions; without its own smoothing it uses loss::kUsualSmoothing.
  /// @throws InvalidArgument for another loss, a rate that is not positive, Θ that is not a kernel,
  ///   or labels that do not fit.
  template <dynamics::KernelResult K>
  static Plant of(const K& kernel, const loss::LossPtr& loss, double rate,
                  const torch::Tensor& labels = {}) {
    if (!loss->classes()) return of_kernel(kernel.theta, loss, rate, kernel.network_dtype);
    return of_classes(
        kernel.theta,
        loss::class_coordinates_at(
            kernel.outputs.to(kernel.theta.device()), labels,
            loss->traits().smoothing > 0 ? loss->traits().smoothing : loss::kUsualSmoothing),
        rate, kernel.network_dtype);
  }
  /// The same from the kernel Θ [n, n] alone, float64, for a quadratic loss. The rounding of a
  /// network of `network_dtype` determines which modes count as null.
  static Plant of_kernel(const torch::Tensor& theta, const loss::LossPtr& loss, double rate,
                         torch::ScalarType network_dtype = torch::kFloat32);
  /// The plant of classes in ζ, for the kernel Θ [rC, rC] of the logits: its modes are those of
  /// H^½ΘH^½.
  static Plant of_classes(const torch::Tensor& theta, loss::ClassCoordinates classes, double rate,
                          torch::ScalarType network_dtype = torch::kFloat32);

  /// From M [n, n], float64; `rank_tolerance` as in dynamics::decompose.
  /// @throws InvalidArgument if M is not a kernel, a number is not positive, or the decay is
  ///   negative.
  static Plant of_kernel(torch::Tensor matrix, double rank_tolerance, const Options& options);
  /// From modes that are already known.
  static Plant of_modes(dynamics::Modes modes, const Options& options);
  /// From M and its modes.
  static Plant of_kernel(torch::Tensor matrix, dynamics::Modes modes, const Options& options);
  /// From a kernel that is never formed: n rows and the largest eigenvalue, possibly approximate.
  /// For controllers that step by products and need neither matrix nor modes.
  static Plant of_products(int64_t n, double largest, const Options& options);

  /// The same plant at another rate; O(1).
  Plant at(double rate) const;

  int64_t size() const;  ///< n
  double rate() const { return options_.rate; }
  double gradient_factor() const { return options_.gradient_factor / options_.samples; }  ///< c
  /// αc
  double step_scale() const { return options_.rate * options_.gradient_factor / options_.samples; }
  const Options& options() const { return options_; }
  /// d/c, added to each eigenvalue; and αd, added to each step.
  double ridge() const { return options_.decay / gradient_factor(); }
  double decay_step() const { return step_scale() * ridge(); }
  /// An upper bound on the eigenvalues of M; approximate for of_products.
  double largest() const;
  /// The largest rate at which no mode of plain descent oscillates; 1 if nothing moves. Descent
  /// diverges beyond twice that.
  double unit_rate() const;

  bool has_matrix() const;  ///< whether it was made from a matrix
  bool has_modes() const;
  double rank_tolerance() const;  ///< for the eigenvalues of a matrix
  torch::Device device() const;   ///< of matrix and modes
  /// The coordinates of a plant of classes; null if x is ŷ − y or defined by the caller.
  const loss::ClassCoordinates* classes() const;
  /// Whether both have the same linearization, at any rates.
  bool shares(const Plant& other) const { return shared_ == other.shared_; }
  /// The modes of M, decomposed at the first call.
  /// @throws InvalidArgument if M was never formed; so do the following members.
  const dynamics::Modes& modes() const;
  /// s [m] of all modes, ascending, including the decay.
  torch::Tensor steps() const;
  /// M; without a matrix, computed from the modes.
  torch::Tensor matrix() const;
  /// S v
  torch::Tensor apply(const torch::Tensor& v) const;

 private:
  struct Shared;
  Plant(std::shared_ptr<Shared> shared, const Options& options);

  std::shared_ptr<Shared> shared_;
  Options options_;
};

}  // namespace cdt::control
