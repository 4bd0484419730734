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

/// Of one linearization; copies share what was computed. Threads may share them as well.
class Plant {
 public:
  struct Options {
    double gradient_factor = 1;  ///< c
    double rate = 1;             ///< α
    double decay = 0;            ///< d
  };

  /// M [n, n], float64. `rank_tolerance` as dynamics::decompose has it.
  /// @throws InvalidArgument if M is no kernel, a number is not positive, or the decay negative.
  static Plant of_kernel(torch::Tensor matrix, double rank_tolerance, const Options& options);
  /// Of modes that are known already.
  static Plant of_modes(dynamics::Modes modes, const Options& options);

  /// The same at another rate; O(1).
  Plant at(double rate) const;

  int64_t size() const;  ///< n
  double rate() const { return options_.rate; }
  double step_scale() const { return options_.rate * options_.gradient_factor; }  ///< αc
  const Options& options() const { return options_; }
  /// αd: what is added to each mode's step.
  double decay_step() const { return options_.rate * options_.decay; }

  bool has_modes() const;
  /// Of M; decomposed when first asked for.
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
