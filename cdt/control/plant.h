/// One linearization, as a controller sees it: x⁺ = x − S(x − u), S = αc(M + (d/c)I).
///
/// x are the errors in coordinates in which the loop is symmetric: e = ŷ − y for quadratic losses,
/// W^½e with weights, H^½(z − z_e) for classes (loss/class_coordinates.h). M is the kernel in them,
/// α the rate, c the factor of the loss's gradient and d the weight decay.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/kernel_result.h>
#include <cdt/dynamics/modes.h>
#include <cdt/loss/class_coordinates.h>
#include <cdt/loss/loss.h>

#include <memory>

namespace cdt::control {

/// Holds one linearization. Copies share what was computed; threads may share them as well.
class Plant {
 public:
  struct Options {
    double gradient_factor = 1;  ///< c, or c·r
    double rate = 1;             ///< α
    double decay = 0;            ///< d
    double samples = 1;          ///< r, of a c that is a mean over samples: divided by last
  };

  /// The plant of gradient descent at `rate`, from what kernel::empirical_ntk has returned. A
  /// quadratic loss has x = ŷ − y for whatever labels come. The cross entropy needs the labels
  /// [r, C], distributions; without smoothing of its own it takes loss::kUsualSmoothing.
  /// @throws InvalidArgument if the loss is another one, the rate not positive, Θ no kernel, or the
  ///   labels do not fit.
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
  /// The same from the kernel Θ [n, n] alone, float64, under a quadratic loss. Which modes count as
  /// null follows from the rounding of a network of `network_dtype`.
  static Plant of_kernel(const torch::Tensor& theta, const loss::LossPtr& loss, double rate,
                         torch::ScalarType network_dtype = torch::kFloat32);
  /// The plant of classes in ζ, for the kernel Θ [rC, rC] of the logits: its modes are those of
  /// H^½ΘH^½.
  static Plant of_classes(const torch::Tensor& theta, loss::ClassCoordinates classes, double rate,
                          torch::ScalarType network_dtype = torch::kFloat32);

  /// From M [n, n], float64. `rank_tolerance` as dynamics::decompose has it.
  /// @throws InvalidArgument if M is no kernel, a number is not positive, or the decay negative.
  static Plant of_kernel(torch::Tensor matrix, double rank_tolerance, const Options& options);
  /// From modes that are known already.
  static Plant of_modes(dynamics::Modes modes, const Options& options);
  /// From both.
  static Plant of_kernel(torch::Tensor matrix, dynamics::Modes modes, const Options& options);
  /// From a kernel that nobody forms, with n rows and the largest eigenvalue, or about: a
  /// controller that steps by it asks for neither matrix nor modes.
  static Plant of_products(int64_t n, double largest, const Options& options);

  /// The same plant at another rate; O(1).
  Plant at(double rate) const;

  int64_t size() const;  ///< n
  double rate() const { return options_.rate; }
  double gradient_factor() const { return options_.gradient_factor / options_.samples; }  ///< c
  /// αc
  double step_scale() const { return options_.rate * options_.gradient_factor / options_.samples; }
  const Options& options() const { return options_; }
  /// d/c, which is added to each eigenvalue; and αd, which is added to each step.
  double ridge() const { return options_.decay / gradient_factor(); }
  double decay_step() const { return step_scale() * ridge(); }
  /// No eigenvalue of M is larger; of products it is about that.
  double largest() const;
  /// The largest rate at which no mode of plain descent oscillates; 1 if nothing moves. Descent
  /// diverges beyond twice that.
  double unit_rate() const;

  bool has_matrix() const;  ///< whether it was made of one
  bool has_modes() const;
  double rank_tolerance() const;  ///< of the eigenvalues of a matrix
  torch::Device device() const;   ///< of matrix and modes
  /// The coordinates of a plant of classes; none: x is ŷ − y, or the caller's to know.
  const loss::ClassCoordinates* classes() const;
  /// Whether it is of the same linearization, at whatever rate.
  bool shares(const Plant& other) const { return shared_ == other.shared_; }
  /// The modes of M; decomposed when first asked for.
  /// @throws InvalidArgument if nobody has formed M; so does all that follows.
  const dynamics::Modes& modes() const;
  /// s [m] of all modes, ascending, the decay included.
  torch::Tensor steps() const;
  /// M; of modes alone it is made of them.
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
