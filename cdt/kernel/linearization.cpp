#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/factor/factored_jacobian.h>
#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/linearization.h>
#include <cdt/kernel/product/gram.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/record/autograd_scope.h>
#include <cdt/kernel/record/parameter_scope.h>
#include <cdt/kernel/record/recorder.h>

#include <cmath>
#include <mutex>
#include <optional>

namespace cdt::kernel {
namespace {

using torch::Tensor;
using Products = LinearizationOptions::Products;

/// Blocks [r, a, b] → [r·a, r·b]
Tensor block_diagonal(const Tensor& blocks) { return torch::block_diag(blocks.unbind(0)); }

/// Applies `product` to a vector, or to each column of a block.
template <class Product>
Tensor by_columns(const Tensor& V, const Product& product) {
  if (!V.defined() || V.dim() == 1) return product(V);
  CDT_REQUIRE(V.dim() == 2 && V.size(1) > 0, "expected a vector or a block of vectors, not ",
              V.sizes());
  std::vector<Tensor> columns;
  for (int64_t k = 0; k < V.size(1); ++k) columns.push_back(product(V.select(1, k).contiguous()));
  return torch::stack(columns, 1);
}

/// Random weights of a self-check.
Tensor probe(int64_t n, const torch::TensorOptions& options) {
  return make_probe(/*seed=*/1, n, 1, options).view({n});
}

/// Linearization of a model, by factors of its layers or its graph.
class OfModel final : public Linearization {
 public:
  OfModel(Model model, Tensor x, LinearizationOptions options, std::vector<Tensor> origin)
      : model_(std::move(model)),
        x_(std::move(x)),
        options_(std::move(options)),
        origin_(std::move(origin)) {}

  static std::vector<Tensor> copies(const Model& model) {
    std::vector<Tensor> found;
    for (const Tensor& p : model.parameters()) found.push_back(p.detach().clone());
    return found;
  }

  const Tensor& outputs() const override {
    const Lock lock(mutex_);
    if (!outputs_.defined()) {
      const AtOrigin here(*this, /*all=*/true);
      const torch::NoGradGuard no_graph;
      watch(model_, [&] { outputs_ = evaluate(model_, x_).to(torch::kFloat64); });
    }
    return outputs_;
  }
  torch::ScalarType dtype() const override { return model_.dtype(); }
  int64_t parameter_count() const override { return model_.parameter_count(); }
  Tensor inputs() const override { return x_; }

  Tensor push_forward(const Tensor& U) const override {
    const Lock lock(mutex_);
    const AtOrigin here(*this);
    if (options_.products == Products::kByThemselves) return by_themselves().push_forward(U);
    return by_columns(U, [&](const Tensor& u) {
      if (options_.products == Products::kWithKernel) return with_kernel().push_forward(u);
      return jacobian_vector_product(model_, x_, in_dtype(u)).to(u.scalar_type());
    });
  }
  Tensor pull_back(const Tensor& V) const override {
    const Lock lock(mutex_);
    const AtOrigin here(*this);
    if (options_.products == Products::kByThemselves) return by_themselves().pull_back(V);
    return by_columns(V, [&](const Tensor& v) {
      if (options_.products == Products::kWithKernel) return with_kernel().pull_back(v);
      return vector_jacobian_product(model_, x_, in_dtype(v)).to(v.scalar_type());
    });
  }
  Tensor kernel_times(const Tensor& V) const override {
    if (options_.products != Products::kByThemselves) return Linearization::kernel_times(V);
    const Lock lock(mutex_);
    const AtOrigin here(*this, /*all=*/true);
    return by_themselves().apply(V);
  }

  Tensor kernel() const override {
    const Lock lock(mutex_);
    const AtOrigin here(*this, /*all=*/true);
    if (options_.products == Products::kWithKernel && with_kernel().theta().defined()) {
      return with_kernel().take_theta();
    }
    return empirical_ntk(model_, x_, options_.kernel).theta;
  }
  Tensor gram(const Tensor& S) const override {
    if (!S.defined()) return gram(unit_blocks());
    const Lock lock(mutex_);
    const AtOrigin here(*this, /*all=*/true);
    return parameter_gram(model_, x_, S, options_.kernel);
  }
  double trace() const override {
    const Lock lock(mutex_);
    const AtOrigin here(*this, /*all=*/true);
    return operator_ ? operator_->trace() : ntk_trace(model_, x_, options_.kernel);
  }

  bool lasts() const override {
    const Lock lock(mutex_);
    return !origin_.empty() || by_factors();
  }

  LinearizationPtr at(const Tensor& x, const LinearizationOptions& options) const override {
    return std::make_shared<OfModel>(model_, x, options, origin_);
  }
  LinearizationPtr projected(const Tensor& D) const override {
    Model model(
        [model = model_, D = D.to(model_.dtype())](const Tensor& x) {
          return model.forward(x).reshape({x.size(0), -1}).matmul(D);
        },
        model_.parameters());
    return std::make_shared<OfModel>(std::move(model), x_, options_, origin_);
  }

 private:
  using Lock = std::lock_guard<std::recursive_mutex>;

  /// Sets the parameters θ₀ if they are kept and have changed, for all that is not computed from
  /// factors.
  class AtOrigin {
   public:
    explicit AtOrigin(const OfModel& of, bool all = false) {
      if (of.origin_.empty() || (!all && of.has_factors())) return;
      const auto& now = of.model_.parameters();
      for (size_t i = 0; i < now.size(); ++i) {
        if (now[i].detach().equal(of.origin_[i])) continue;
        scope_.emplace(of.model_, of.origin_);
        return;
      }
    }

   private:
    std::optional<ParameterCopyScope> scope_;
  };

  Tensor in_dtype(const Tensor& v) const {
    CDT_REQUIRE(v.defined(), "expected a vector");
    CDT_REQUIRE(v.scalar_type() == model_.dtype() || v.scalar_type() == torch::kFloat64,
                "expected a vector of ", model_.dtype(), " or float64, got ", v.scalar_type());
    return v.to(model_.dtype());
  }
  Tensor unit_blocks() const {
    const int64_t width = outputs().size(1);
    return torch::eye(width, outputs().options()).expand({x_.size(0), width, width});
  }

  NtkOperator& by_themselves() const {
    // A kept graph is invalid once its parameters were written to, whatever their values.
    const bool kept = !origin_.empty() && operator_ && !operator_->by_factors();
    if (kept && versions() != versions_) operator_.reset();
    if (!operator_) {
      versions_ = versions();
      operator_.emplace(model_, x_,
                        OperatorOptions{.memory_bytes = options_.kernel.memory_bytes,
                                        .accumulate = options_.accumulate});
    }
    return *operator_;
  }
  std::vector<int64_t> versions() const {
    std::vector<int64_t> found;
    for (const Tensor& p : model_.parameters()) found.push_back(version_of(p));
    return found;
  }
  FactoredJacobian& with_kernel() const {
    if (!factored_) factored_.emplace(model_, x_, options_.kernel);
    return *factored_;
  }
  /// Whether factors exist already.
  bool has_factors() const {
    return (operator_ && operator_->by_factors()) || (factored_ && factored_->by_factors());
  }
  bool by_factors() const {
    if (options_.products == Products::kByThemselves) return by_themselves().by_factors();
    return options_.products == Products::kWithKernel && with_kernel().by_factors();
  }

  Model model_;
  Tensor x_;
  LinearizationOptions options_;
  std::vector<Tensor> origin_;          ///< θ₀; empty: the parameters do not change
  mutable std::recursive_mutex mutex_;  ///< protects all below, and the model's parameters
  mutable Tensor outputs_;              ///< computed on first use, as are the others
  mutable std::optional<NtkOperator> operator_;
  mutable std::vector<int64_t> versions_;  ///< of the parameters at its construction
  mutable std::optional<FactoredJacobian> factored_;
};

/// Linearization given by rows of J.
class OfRows final : public Linearization {
 public:
  OfRows(const Tensor& outputs, std::function<Tensor()> rows,
         std::function<Tensor(const Tensor&)> pull_back)
      : dtype_(outputs.scalar_type()),
        outputs_(outputs.detach().to(torch::kFloat64)),
        rows_(std::move(rows)),
        pull_back_(std::move(pull_back)) {}

  const Tensor& outputs() const override { return outputs_; }
  torch::ScalarType dtype() const override { return dtype_; }
  int64_t parameter_count() const override { return jacobian().size(1); }
  bool lasts() const override { return true; }

  Tensor push_forward(const Tensor& U) const override {
    require(U, jacobian().size(1), "U");
    return jacobian().matmul(U.to(torch::kFloat64)).to(U.scalar_type());
  }
  Tensor pull_back(const Tensor& V) const override {
    require(V, jacobian().size(0), "V");
    return jacobian().t().matmul(V.to(torch::kFloat64)).to(V.scalar_type());
  }
  Tensor kernel() const override {
    const KernelScope scope;
    const Tensor theta = jacobian().mm(jacobian().t());
    return (theta + theta.t()) / 2;
  }
  double trace() const override { return jacobian().square().sum().item<double>(); }

 private:
  void require(const Tensor& V, int64_t length, const char* name) const {
    CDT_REQUIRE(V.defined() && (V.dim() == 1 || V.dim() == 2) && V.size(0) == length, name,
                ": expected a vector [", length, "] or a block of vectors [", length, ", k], got ",
                V.defined() ? V.sizes() : torch::IntArrayRef());
    CDT_REQUIRE(V.scalar_type() == dtype_ || V.scalar_type() == torch::kFloat64, name,
                ": expected ", dtype_, " or float64, got ", V.scalar_type());
  }

  /// [n, P], float64
  const Tensor& jacobian() const {
    const std::lock_guard lock(mutex_);
    if (jacobian_.defined()) return jacobian_;
    const KernelScope scope;
    const Tensor found = rows_();
    CDT_REQUIRE(found.defined() && found.dim() == 2 && found.size(0) == outputs_.numel(),
                "the Jacobian of ", outputs_.numel(), " outputs must have as many rows, not shape ",
                found.defined() ? found.sizes() : torch::IntArrayRef());
    const Tensor wide = found.detach().to(torch::kFloat64);
    if (pull_back_) require_agreement(wide);
    jacobian_ = wide;
    return jacobian_;
  }
  void require_agreement(const Tensor& J) const {
    const Tensor v = probe(J.size(0), outputs_.options()).to(dtype_);
    const double expected = pull_back_(v).to(torch::kFloat64).square().sum().item<double>();
    const double found = J.t().mv(v.to(torch::kFloat64)).square().sum().item<double>();
    if (std::abs(found - expected) <= tol::self_check(dtype_) * expected) return;
    throw NumericalError(c10::str(
        "the rows of the residuals' Jacobian do not agree with autograd: vᵀJJᵀv is ", found,
        ", ‖Jᵀv‖² is ", expected, "; does the function return other residuals each time?"));
  }

  torch::ScalarType dtype_;
  Tensor outputs_;
  std::function<Tensor()> rows_;
  std::function<Tensor(const Tensor&)> pull_back_;
  mutable std::mutex mutex_;
  mutable Tensor jacobian_;
};

}  // namespace

Sizes Linearization::sizes() const {
  return {outputs().size(0), outputs().size(1), parameter_count()};
}

Tensor Linearization::kernel_times(const Tensor& V) const { return push_forward(pull_back(V)); }

/// Checks that the products are transposes: vᵀΘv = ‖Jᵀv‖².
Tensor Linearization::kernel() const {
  const int64_t n = outputs().numel();
  const Tensor theta = kernel_times(torch::eye(n, outputs().options()));
  const Tensor v = probe(n, outputs().options());
  const double expected = pull_back(v).square().sum().item<double>();
  const double found = v.dot(theta.mv(v)).item<double>();
  if (!(std::abs(found - expected) <= tol::self_check(dtype()) * expected)) {
    throw NumericalError(c10::str("products with J and with its transpose do not agree: v'JJ'v is ",
                                  found, ", |J'v|^2 is ", expected));
  }
  return (theta + theta.t()) / 2;
}

Tensor Linearization::gram(const Tensor& S) const {
  const Sizes size = sizes();
  CDT_REQUIRE(
      !S.defined() || (S.dim() == 3 && S.size(0) == size.samples && S.size(1) == size.outputs),
      "S must have a block for each of ", size.samples, " samples, [", size.samples, ", ",
      size.outputs, ", k], not ", S.defined() ? S.sizes() : torch::IntArrayRef());
  const Tensor blocks = S.defined() ? block_diagonal(S.to(outputs().options()))
                                    : torch::eye(size.size(), outputs().options());
  const Tensor pulled = pull_back(blocks);
  return pulled.mm(pulled.t());
}

double Linearization::trace() const {
  return pull_back(torch::eye(outputs().numel(), outputs().options()))
      .square()
      .sum()
      .item<double>();
}

double Linearization::dot(const Tensor& a, const Tensor& b) const {
  return (a * b).sum().item<double>();
}

LinearizationPtr Linearization::at(const Tensor&, const LinearizationOptions&) const {
  throw InvalidArgument("the outputs are those of a function, which has no samples to exchange");
}

LinearizationPtr Linearization::projected(const Tensor& D) const {
  const Tensor wide = D.to(outputs().options());
  const Tensor blocks = wide.expand({outputs().size(0), wide.size(0), wide.size(1)});
  return from_rows(outputs().mm(wide), [self = shared_from_this(), blocks] {
    return self->pull_back(block_diagonal(blocks)).t();
  });
}

LinearizationPtr linearize(const Model& model, const Tensor& x,
                           const LinearizationOptions& options) {
  require_samples(x);
  return std::make_shared<OfModel>(
      model, x, options, options.keeps_parameters ? OfModel::copies(model) : std::vector<Tensor>());
}

LinearizationPtr linearize(const Model& model, const Tensor& x, const NtkOptions& options) {
  return linearize(model, x, LinearizationOptions{.kernel = options});
}

LinearizationPtr from_rows(const Tensor& outputs, std::function<Tensor()> rows,
                           std::function<Tensor(const Tensor&)> pull_back) {
  CDT_REQUIRE(outputs.defined() && outputs.dim() == 2 && rows,
              "outputs must have shape [samples, outputs], and a function for their rows");
  return std::make_shared<OfRows>(outputs, std::move(rows), std::move(pull_back));
}

}  // namespace cdt::kernel
