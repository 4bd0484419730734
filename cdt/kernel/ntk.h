/// The empirical neural tangent kernel Θ = J Jᵀ of any model (paper eq. empiricalNTK and kernel).
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

#include <functional>
#include <string>
#include <vector>

namespace cdt::kernel {

/// How the Jacobian of a parameter was computed.
enum class Coverage { kRule, kJacobian, kUnused };

struct ParameterCoverage {
  Coverage coverage = Coverage::kUnused;
  std::string reason;  ///< why no rule applies, if none does
};

struct NtkOptions {
  /// kAuto uses a layer rule wherever one applies and Jacobian rows for the rest. kJacobian uses
  /// rows for all parameters: slower by orders of magnitude, the reference for the rules.
  enum class Path { kAuto, kJacobian };
  Path path = Path::kAuto;

  /// Approximate memory limit beyond Θ itself (plus slices of 64 MB, on a GPU 256 MB, gradients of
  /// all parameters for one or two blocks, and what operators such as convolutions allocate).
  /// Samples are processed in blocks that fit, and so are their outputs if there are many. If the
  /// factors of all samples do not fit, blocks are recomputed for each pair. The default suits an 8
  /// GB machine.
  int64_t memory_bytes = int64_t{2} << 30;

  /// Dtype in which Gram products accumulate, whatever the network's, and the dtype of Θ. With
  /// float64, rounding of a float32 network perturbs singular values of J, not of Θ, so null
  /// directions stay visible (docs/explanation/mathematics.md).
  torch::ScalarType accumulate = torch::kFloat64;

  /// Seed of the random weights in the self-check.
  uint64_t seed = 1;

  /// Skip the self-check once a kernel of this shape has passed it. For callers who compute many
  /// kernels of a model that always runs the same operators, and have one checked from time to
  /// time.
  bool trusted = false;

  /// Whether repeated kernels of one shape on a GPU are replayed as a CUDA graph. All checks remain
  /// except those that watch the operators; the model keeps the graph's memory.
  /// - kChecked: each replay also evaluates and differentiates the model once. If its outputs or
  ///   Jᵀv, v the random weights of the self-check, differ from the recording's, the kernel is
  ///   recomputed. Only models with LibTorch's own derivatives, without hooks, that never wait for
  ///   the device are recorded, and only if the recording keeps at most a sixteenth of the device's
  ///   memory.
  /// - kPromised: the caller promises that the model always runs the same operators on the same
  ///   tensors, and that only their values change. The model is not called again.
  enum class Replay { kNever, kChecked, kPromised };
  Replay replay = Replay::kNever;

  /// Whether products of layers of equal widths are batched by stacking their factors. kAuto: on a
  /// GPU, where launching small products takes longer than computing them. Θ changes by rounding
  /// only.
  enum class Layers { kAuto, kOneByOne, kTogether };
  Layers layers = Layers::kAuto;

  /// Called after each pair of blocks with the number of pairs done and in total.
  std::function<void(int64_t done, int64_t total)> progress;
};

/// A kernel and how it was computed.
struct Ntk {
  torch::Tensor theta;  ///< [n, n] or [n, n′], entry (i·n_L + c, j·n_L + c′); symmetric to the last
                        ///< bit for x = x′.
  torch::Tensor outputs;                    ///< ŷ [r, n_L] on x.
  std::vector<ParameterCoverage> coverage;  ///< per parameter of the model
  /// Largest relative gap between vᵀΘv and ‖Jᵀv‖², over groups and blocks.
  double self_check = 0;
  torch::ScalarType network_dtype = torch::kFloat32;

  /// One line: how many parameters used a rule, Jacobian rows (and why), or none; the self-check.
  std::string brief_report() const;
};

/// Θ(x, x). Costs O(n²·width) per linear layer by rule, n backward passes and O(n²·P) without one.
///
/// Always self-checked: for random weights v, vᵀΘ_g v must equal ‖J_gᵀv‖² from autograd, for each
/// group g of parameters and each block of samples. A rule that fails is replaced by the Jacobian
/// path, and `coverage` says so.
///
/// @throws InvalidArgument if inputs are empty or not finite, a layer mixes samples or is random
///   (training mode), or the memory limit is too small for one sample.
/// @throws NumericalError if outputs are not finite or the Jacobian path fails its check too.
Ntk empirical_ntk(const Model& model, const torch::Tensor& x, const NtkOptions& options = {});

/// Θ(x, x′) [n, n′], with the same checks.
Ntk empirical_ntk(const Model& model, const torch::Tensor& x, const torch::Tensor& x_prime,
                  const NtkOptions& options = {});

/// tr Θ(x, x) = ‖J‖² in float64, with the same checks, in one pass over the samples. As the sum of
/// all eigenvalues it bounds those that an iterative solver has not found.
double ntk_trace(const Model& model, const torch::Tensor& x, const NtkOptions& options = {});

}  // namespace cdt::kernel
