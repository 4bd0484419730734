/// One linearization, as a controller sees it: x⁺ = x − S(x − u), S = αc(M + (d/c)I).
///
/// x are the errors in coordinates in which the loop is symmetric: e itself for quadratic losses,
/// W^½e with weights, H^½(z − z_e) for classes; M is the kernel in them, α the rate, c the factor
/// of the loss's gradient and d the weight decay.
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

#include <memory>

namespace cdt::control {

/// Describes one linearization; copies share what was computed. Threads may share them as well.
class Plant {
 public:
  struct Options {
    double gradient_factor = 1;  ///< c, or c·r
    double rate = 1;             ///< α
    double decay = 0;            ///< d
    double samples = 1;          ///< r, of a c that is a mean over samples: divided by last
  };

  /// M [n, n], float64. `rank_tolerance` as dynamics::decompose has it.
  /// @throws InvalidArgument if M is no kernel, a number is not positive, or the decay negative.
  static Plant of_kernel(torch::Tensor matrix, double rank_tolerance, const Options& options);
  /// Of modes that are known already.
  static Plant of_modes(dynamics::Modes modes, const Options& options);
  /// Of both.
  static Plant of_kernel(torch::Tensor matrix, dynamics::Modes modes, const Options& options);
  /// For a kernel that is never formed, with n rows and about this largest eigenvalue: a step by
  /// it needs neither matrix nor modes.
  static Plant of_products(int64_t n, double largest, const Options& options);

  /// The same at another rate; O(1).
  Plant at(double rate) const;

  int64_t size() const;  ///< n
  double rate() const { return options_.rate; }
  double gradient_factor() const { return options_.gradient_factor / options_.samples; }  ///< c
  /// αc
  double step_scale() const { return options_.rate * options_.gradient_factor / options_.samples; }
  const Options& options() const { return options_; }
  /// d/c: what is added to each eigenvalue; and αd, to each step.
  double ridge() const { return options_.decay / gradient_factor(); }
  double decay_step() const { return step_scale() * ridge(); }
  /// No eigenvalue of M is larger; by products it is about that.
  double largest() const;
  /// The largest rate at which no mode of plain descent oscillates; 1 if nothing moves.
  double unit_rate() const;

  bool has_matrix() const;  ///< it was made of one
  bool has_modes() const;
  double rank_tolerance() const;  ///< of the eigenvalues of a matrix
  /// Whether it describes the same linearization, at any rate.
  bool shares(const Plant& other) const { return shared_ == other.shared_; }
  /// Of M; decomposed when first asked for.
  /// @throws InvalidArgument if M was not formed; so does all that follows.
  const dynamics::Modes& modes() const;
  /// s [m] of all modes, ascending, the decay in it.
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
