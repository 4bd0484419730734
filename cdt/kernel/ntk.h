/// The empirical neural tangent kernel Θ = J Jᵀ of any model (paper eq. empiricalNTK and kernel).
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>

#include <functional>
#include <string>
#include <vector>

namespace cdt::kernel {

/// How the Jacobian of each parameter was found.
enum class Coverage { kRule, kJacobian, kUnused };

struct ParameterCoverage {
  Coverage coverage = Coverage::kUnused;
  std::string reason;  ///< why no rule applies, where none does
};

struct NtkOptions {
  /// kAuto uses a layer rule wherever one applies and rows of the Jacobian for the rest; kJacobian
  /// rows for all: slower by orders of magnitude, and the oracle of the rules.
  enum class Path { kAuto, kJacobian };
  Path path = Path::kAuto;

  /// Beyond Θ itself, about as much memory as this is used (and slices of 64 MB, on a GPU 256 MB,
  /// gradients of all parameters for one block or two, and what operators such as convolutions
  /// allocate inside). Samples are processed in blocks that fit, and their outputs too where there
  /// are many: where factors of all samples do not, blocks are recomputed for each pair. The
  /// default leaves room on an 8 GB machine.
  int64_t memory_bytes = int64_t{2} << 30;

  /// Gram products accumulate in this dtype, whatever the network's, and Θ has it. In float64
  /// rounding of a float32 network moves singular values of J, not of Θ, so null directions stay
  /// visible (docs/explanation/mathematics.md).
  torch::ScalarType accumulate = torch::kFloat64;

  /// Seed of the random weights in the self-check.
  uint64_t seed = 1;

  /// Without the self-check, once a kernel of this shape has passed it: for callers that make many,
  /// of a model that runs the same operators always, and has one of them checked now and then.
  bool trusted = false;

  /// Whether kernels on a GPU, after some of one shape in a row, are replayed as a CUDA graph, with
  /// all checks but those that watch the operators; the model keeps its memory.
  /// kChecked: beside each replay the model is evaluated and differentiated once. Unless its
  /// outputs and Jᵀv, v the random weights of the self-check, are those of the recording, the
  /// kernel is made anew. Recorded are models of LibTorch's own derivatives, without hooks, that
  /// never wait for the device, if that keeps no more than a sixteenth of its memory. kPromised:
  /// the caller promises that the model runs the same operators on the same tensors, whatever their
  /// values, and changes by these alone; it is not called again.
  enum class Replay { kNever, kChecked, kPromised };
  Replay replay = Replay::kNever;

  /// Whether products of layers of equal widths are made as one, by factors that are stacked.
  /// kAuto: on a GPU, where small products take longer to begin than to compute. Θ is the same to
  /// rounding.
  enum class Layers { kAuto, kOneByOne, kTogether };
  Layers layers = Layers::kAuto;

  /// Called after each pair of blocks, with the pairs done and their number.
  std::function<void(int64_t done, int64_t total)> progress;
};

/// A kernel and how it was found.
struct Ntk {
  torch::Tensor theta;  ///< [n, n] or [n, n′], entry (i·n_L + c, j·n_L + c′); symmetric to the last
                        ///< bit for x = x′.
  torch::Tensor outputs;                    ///< ŷ [r, n_L] on x.
  std::vector<ParameterCoverage> coverage;  ///< by parameter of the model
  double self_check =
      0;  ///< the largest relative gap found between vᵀΘv and ‖Jᵀv‖², over groups and blocks
  torch::ScalarType network_dtype = torch::kFloat32;

  /// One line: how many parameters by rule, by Jacobian rows (and why), unused; the self-check.
  std::string brief_report() const;
};

/// Θ(x, x). O(n²·width) per linear layer by rule; n backward passes and O(n²·P) where none applies.
///
/// Always checks itself: for random weights v, vᵀΘ_g v must equal ‖J_gᵀv‖² from autograd, for each
/// group g of parameters and each block of samples; a rule that fails is replaced by the Jacobian
/// path, and `coverage` says so.
///
/// @throws InvalidArgument if inputs are empty or not finite, a layer mixes samples or is random
/// (training mode), or the memory
///   budget does not hold one sample.
/// @throws NumericalError if outputs are not finite or the Jacobian path fails its check too.
Ntk empirical_ntk(const Model& model, const torch::Tensor& x, const NtkOptions& options = {});

/// Θ(x, x′) [n, n′], with the same checks.
Ntk empirical_ntk(const Model& model, const torch::Tensor& x, const torch::Tensor& x_prime,
                  const NtkOptions& options = {});

/// tr Θ(x, x) = ‖J‖² in float64, with the same checks and in one pass over the samples: the sum of
/// all eigenvalues, and so a bound on those that an iteration has not found.
double ntk_trace(const Model& model, const torch::Tensor& x, const NtkOptions& options = {});

}  // namespace cdt::kernel
