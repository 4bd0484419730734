#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/lanczos.h>

#include <cmath>

namespace cdt::dynamics {
namespace {

/// For matrices up to this size on a GPU, squaring is faster than Lanczos, which needs many small
/// sequential operations.
constexpr int64_t kSquaredRows = 2000;
/// Maximum number of squarings, and how many are done before rescaling, or testing. A matrix of
/// trace 1 has an eigenvalue of at least 1/n, whose 16th power is far from underflow.
constexpr int kMostSquarings = 40;
constexpr int kSquaringsBetweenScales = 4;
constexpr int kSquaringsBetweenLooks = 8;
/// Maximum relative error of λ_max.
constexpr double kSquaringTolerance = 1e-10;
/// For the residual; the error of the eigenvalue is its square.
constexpr double kMatrixTolerance = 1e-7;
constexpr int64_t kMatrixBlock = 4;

using torch::Tensor;

/// A column whose part outside the basis is a smaller share is rounding, not a direction.
constexpr double kNoDirection = 1e-12;
/// Attempts to find a direction outside the basis.
constexpr int kDraws = 4;

/// An orthonormal basis Q [n, k] and the products ΘQ.
class Basis {
 public:
  Basis(const KernelProduct& product, int64_t n, const LanczosOptions& options)
      : product_(product),
        n_(n),
        options_(torch::TensorOptions().dtype(torch::kFloat64).device(options.device)),
        generator_(at::detail::createCPUGenerator(options.seed)),
        Q(torch::empty({n, 0}, options_)),
        ThetaQ(torch::empty({n, 0}, options_)) {}

  int64_t size() const { return Q.size(1); }
  int64_t products() const { return products_; }
  Tensor random(int64_t columns) {
    return torch::randn({n_, columns}, generator_, torch::TensorOptions().dtype(torch::kFloat64))
        .to(options_);
  }

  Tensor apply(const Tensor& X) {
    const Tensor result = product_(X);
    require_shape(result, {n_, X.size(1)}, "the product with a block");
    CDT_REQUIRE(result.scalar_type() == torch::kFloat64,
                "the product with a block must be float64, got ", result.scalar_type());
    require_finite(result, "the product with a block");
    CDT_REQUIRE(result.abs().max().item<double>() <= tol::kLargestEntry,
                "the product with a block must have no entry beyond ", tol::kLargestEntry,
                ", where squares overflow");
    products_ += X.size(1);
    return result;
  }

  /// Appends the new directions in the columns of X, with random ones in place of dependent
  /// columns, and their products.
  void extend(const Tensor& X) {
    const Tensor block = orthonormal(X);
    ThetaQ = torch::cat({ThetaQ, apply(block)}, 1);
    Q = torch::cat({Q, block}, 1);
  }

  /// Q ← QY and its products without new ones, orthonormalized again (Cholesky), since rounding
  /// accumulates over many restarts.
  void rotate(const Tensor& Y) {
    Q = Q.mm(Y);
    ThetaQ = ThetaQ.mm(Y);
    const Tensor L = torch::linalg_cholesky(Q.t().mm(Q));
    Q = torch::linalg_solve_triangular(L, Q.t(), false).t();
    ThetaQ = torch::linalg_solve_triangular(L, ThetaQ.t(), false).t();
  }

 private:
  Tensor orthonormal(const Tensor& X) {
    const int64_t columns = std::min(X.size(1), n_ - size());
    Tensor block = X.narrow(1, 0, columns);
    for (int draw = 0;; ++draw) {
      const Tensor sizes = block.norm(2, 0).clamp_min(std::numeric_limits<double>::min());
      block = block / sizes;
      Tensor known;
      for (int pass = 0; pass < 2; ++pass) {  // twice is enough (Kahan, Parlett)
        block = block - Q.mm(Q.t().mm(block));
        if (pass == 0) known = block.norm(2, 0) > kNoDirection;
        const auto [q, r] = torch::linalg_qr(block);
        known = known.logical_and(r.diagonal().abs() > kNoDirection);
        block = q;
      }
      if (known.all().item<bool>()) return block;
      CDT_REQUIRE(draw < kDraws, "no direction is left outside a basis of ", size(), " of ", n_);
      block = torch::where(known, block, random(columns));
    }
  }

  const KernelProduct& product_;
  int64_t n_;
  torch::TensorOptions options_;
  at::Generator generator_;
  int64_t products_ = 0;

 public:
  Tensor Q;
  Tensor ThetaQ;
};

struct Ritz {
  Tensor values;    ///< [k] ascending
  Tensor rotation;  ///< [k, k]
};

Ritz rayleigh_ritz(const Basis& basis) {
  const Tensor T = basis.Q.t().mm(basis.ThetaQ);
  const auto [values, vectors] = torch::linalg_eigh((T + T.t()) / 2);
  return {values, vectors};
}

/// Bound on the complement of V from trace and norm; n and m with allowance for rounding.
double bound_of_tail(const LanczosOptions& options, const Tensor& values, double residual,
                     int64_t n) {
  const double rounding = 4 * static_cast<double>(n) * tol::kEpsilon64;
  double bound = std::numeric_limits<double>::infinity();
  if (options.trace) {
    const double left = *options.trace - values.sum().item<double>();
    const double slack = rounding * *options.trace;
    CDT_REQUIRE(left >= -slack,
                "the trace must be no less than the sum of the leading eigenvalues, ",
                values.sum().item<double>(), ", got ", *options.trace);
    bound = std::max(left, 0.0) + slack;
  }
  if (options.squared_norm) {
    const double known = values.square().sum().item<double>() + 2 * residual * residual;
    const double left = *options.squared_norm - known;
    const double slack = rounding * *options.squared_norm;
    CDT_REQUIRE(left >= -slack, "‖Θ‖_F² must be no less than what the leading modes have of it, ",
                known, ", got ", *options.squared_norm);
    bound = std::min(bound, std::sqrt(std::max(left, 0.0) + slack));
  }
  return bound;
}

}  // namespace

LeadingModes leading_modes(const KernelProduct& product, int64_t n, const LanczosOptions& options) {
  CDT_REQUIRE(n >= 1, "a kernel has at least one row, got ", n);
  CDT_REQUIRE(
      options.modes >= 1 && options.block >= 1 && options.basis >= 0 && options.max_restarts >= 0,
      "modes and block must be positive, basis and max_restarts not negative");
  require_positive(options.tolerance, "tolerance");
  require_non_negative(options.rank_tolerance, "rank_tolerance");
  const int64_t wanted = std::min(options.modes, n);
  CDT_REQUIRE(options.trace || options.squared_norm || wanted == n,
              "the tail has no bound without the trace or the squared norm of the kernel");
  if (options.trace) require_non_negative(*options.trace, "trace");
  if (options.squared_norm) require_non_negative(*options.squared_norm, "squared_norm");
  const int64_t usual = options.basis > 0 ? options.basis : 2 * wanted + 4 * options.block;
  const int64_t largest_basis = std::min(n, std::max(usual, wanted + options.block));

  LeadingModes result;
  Basis basis(product, n, options);
  basis.extend(basis.random(std::min(options.block, n)));
  while (true) {
    while (basis.size() < largest_basis) {
      const int64_t next = std::min(options.block, largest_basis - basis.size());
      const int64_t last = std::min(options.block, basis.size());
      basis.extend(
          basis.ThetaQ.narrow(1, basis.size() - last, last).narrow(1, 0, std::min(next, last)));
    }
    const auto [values, rotation] = rayleigh_ritz(basis);
    const int64_t k = basis.size();
    const double largest = std::max(values[k - 1].item<double>(), 0.0);
    const Tensor Y = rotation.narrow(1, k - wanted, wanted);
    const Tensor errors =
        (basis.ThetaQ.mm(Y) - basis.Q.mm(Y * values.narrow(0, k - wanted, wanted)));
    const Tensor sizes = errors.norm(2, 0);
    result.converged = sizes.max().item<double>() <= options.tolerance * largest || k == n;
    if (result.converged || result.restarts >= options.max_restarts) {
      basis.rotate(Y);
      break;
    }
    // Keeps the wanted vectors, some of the next, and the directions of their residuals.
    const int64_t kept = std::min(k - options.block, wanted + (largest_basis - wanted) / 2);
    const Tensor kept_rotation = rotation.narrow(1, k - kept, kept);
    const Tensor worst = std::get<1>(sizes.topk(std::min(options.block, wanted)));
    const Tensor directions = errors.index_select(1, worst);
    basis.rotate(kept_rotation);
    basis.extend(directions);
    ++result.restarts;
  }

  // Once more with new products, so that accumulated rounding does not matter.
  basis.ThetaQ = basis.apply(basis.Q);
  const auto [values, rotation] = rayleigh_ritz(basis);
  Modes& modes = result.modes;
  modes.vectors = basis.Q.mm(rotation);
  const double error = (basis.ThetaQ.mm(rotation) - modes.vectors * values).norm().item<double>();
  modes.smallest = values[0].item<double>();
  const double largest = std::max(values[wanted - 1].item<double>(), 0.0);
  const double rounding = static_cast<double>(n) * tol::kEpsilon64;
  CDT_REQUIRE(modes.smallest >= -std::max(options.rank_tolerance, rounding) * largest - error,
              "kernel must be positive semidefinite; it has an eigenvalue of about ",
              modes.smallest, ", its largest is ", largest);
  modes.tail_bound = wanted == n ? 0 : bound_of_tail(options, values, error, n);
  modes.residual = largest > 0 ? error / largest : 0;
  modes.rank_tolerance = options.rank_tolerance;
  const Tensor kept = values > std::max(options.rank_tolerance, rounding) * largest;
  modes.rank = kept.sum().item<int64_t>();
  modes.values = torch::where(kept, values, torch::zeros_like(values));
  result.products = basis.products();
  return result;
}

double largest_eigenvalue_by_squaring(const Tensor& theta) {
  Tensor power = theta / at::linalg_vector_norm(theta);
  double largest = 0;
  for (int k = 1; k <= kMostSquarings; ++k) {
    power = power.mm(power);
    if (k % kSquaringsBetweenScales == 0) power = power / power.trace();
    if (k % kSquaringsBetweenLooks != 0) continue;
    const Tensor found =
        torch::stack({at::linalg_vector_norm(power), torch::sum(power * theta)}).cpu();
    const double* values = found.data_ptr<double>();
    largest = values[1];
    if (1 - values[0] * values[0] <= kSquaringTolerance || std::isnan(largest)) break;
  }
  if (!std::isnan(largest)) return largest;
  require_finite(theta, "the matrix");
  return 0;  // 0/0: the matrix is zero
}

double largest_eigenvalue(const Tensor& theta) {
  if (theta.is_cuda() && theta.size(0) <= kSquaredRows)
    return largest_eigenvalue_by_squaring(theta);
  LanczosOptions lanczos;
  lanczos.modes = 1;
  lanczos.block = kMatrixBlock;
  lanczos.device = theta.device();
  lanczos.tolerance = kMatrixTolerance;
  lanczos.trace = theta.trace().item<double>();
  const auto product = [&](const Tensor& columns) { return theta.mm(columns); };
  return leading_modes(product, theta.size(0), lanczos).modes.largest();
}

}  // namespace cdt::dynamics
