/// Layer rules: the Jacobian of the parameters in an operator call.
///
/// Rules are entries of a table (rules/table.cpp), found by operator name. A rule may follow a
/// parameter through an operator (a transposition, a constant factor), recognise a site (a call
/// that is linear in parameters, with its part of the Jacobian in factored form), or refuse a
/// layer. To add a kind of layer, add a file in rules/ and a line to the table; recorder and
/// factorization do not depend on operators.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <cdt/kernel/factor/factor_group.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::kernel {

/// An operand scale·θ_p or scale·θ_pᵀ, or a contiguous part of θ_p, in any shape.
struct ParameterUse {
  size_t parameter = 0;
  double scale = 1;
  bool transposed = false;
  size_t argument = 0;         ///< index of the operand in the call
  int64_t element = -1;        ///< index in a list argument; −1: not a list
  int64_t offset = 0;          ///< index of its first entry in θ_p
  std::vector<int64_t> shape;  ///< before transposition or copying
  bool copied = false;         ///< broadcast along new or singleton dimensions

  ParameterUse times(double factor) const;
  ParameterUse turned() const;
  int64_t numel() const;
};

/// An operator call of a forward pass, after it has returned.
class Call {
 public:
  virtual ~Call() = default;

  std::string_view name() const { return name_; }
  size_t size() const { return arguments_.size(); }
  const c10::IValue& operator[](size_t i) const { return arguments_[i]; }
  bool is_tensor(size_t i) const {
    return i < size() && arguments_[i].isTensor() && arguments_[i].toTensor().defined();
  }
  const torch::Tensor& tensor(size_t i) const { return arguments_[i].toTensor(); }
  bool is_true(size_t i) const {
    return i < size() && arguments_[i].isBool() && arguments_[i].toBool();
  }
  double number(size_t i) const { return arguments_[i].toScalar().toDouble(); }
  /// A number, or a zero-dimensional tensor without gradient.
  std::optional<double> constant(size_t i) const;
  /// The version of a tensor before the call, which may have modified its first argument.
  int64_t version(size_t i) const;
  /// The parameter that argument i equals up to a factor and a transposition; none if it is
  /// anything else, or a broadcast copy.
  virtual std::optional<ParameterUse> parameter(size_t i) const = 0;
  /// Likewise for a tensor that the call takes, including copies.
  virtual std::optional<ParameterUse> parameter_in(const torch::Tensor& tensor) const = 0;
  virtual bool depends_on_inputs(const torch::Tensor& tensor) const = 0;
  virtual int64_t samples() const = 0;  ///< b
  /// For calling the operator again; none if it is not a LibTorch operator.
  virtual std::optional<c10::OperatorHandle> handle() const = 0;
  /// h; undefined before the call has returned.
  const torch::Tensor& output() const { return output_; }

 protected:
  std::string name_;
  std::vector<c10::IValue> arguments_;
  int64_t first_version_ = 0;
  torch::Tensor output_;
};

/// Input of a site's factorization, and where it stores its factors.
class FactorBuilder {
 public:
  /// Gradients G [b, c, T, d…] of c network outputs at the site's h, seen as [b, T, d…].
  torch::Tensor gradient;
  /// Dimension of h along which samples lie: the first (possibly T rows per sample), or another
  /// one, which has been moved to the front of the gradient; then T = 1.
  int64_t sample_dimension = 0;
  torch::ScalarType accumulate = torch::kFloat64;
  int64_t slice = int64_t{1} << 20;  ///< entries of a temporary

  virtual ~FactorBuilder() = default;
  /// Whether rules determine the parameter's Jacobian.
  virtual bool by_rule(const ParameterUse& use) const = 0;
  /// Whether all of the parameter is used here, and only here.
  virtual bool used_once(const ParameterUse& use) const = 0;
  /// Whether J of a weight needs fewer operations as rows than as outer products.
  virtual bool as_rows(const ParameterUse& use) const = 0;
  /// Adds a term to J of a weight of shape [left, right], if the operand is not transposed.
  virtual void add(const ParameterUse& weight, OuterProduct term) = 0;
  /// The same with the bias that belongs to the weight; both are used once.
  virtual void add_joined(const ParameterUse& weight, const ParameterUse& bias,
                          OuterProduct term) = 0;
  /// Adds rows [b·c, numel of the operand] to J of one parameter.
  virtual void add_rows(const ParameterUse& use, const torch::Tensor& rows) = 0;

  int64_t samples() const { return gradient.size(0); }
  int64_t outputs() const { return gradient.size(1); }
  /// Moves the sample dimension of a tensor with the leading dimensions of h to the front.
  torch::Tensor samples_first(const torch::Tensor& t) const {
    return sample_dimension == 0 ? t : t.movedim(sample_dimension, 0);
  }
};

/// Number of entries of a site's factors, for all samples of the call together.
struct SiteCost {
  int64_t shared = 0;      ///< independent of the number of outputs
  int64_t per_output = 0;  ///< per output of the network
  int64_t passing = 0;     ///< per output, only until the factors are made
  /// Shapes of the outer products that it adds: a weight [in, out] at `positions` positions per
  /// sample.
  struct Term {
    ParameterUse use;
    int64_t positions = 1;
    int64_t in = 1;
    int64_t out = 1;
    bool rows_only = false;       ///< not an outer product: in·out entries per row in any case
    bool one_hot = false;         ///< the input is an index below `in`
    int64_t kept = 0;             ///< as outer products, in addition to `shared`
    int64_t kept_per_output = 0;  ///< likewise
  };
  std::vector<Term> terms;
};

/// One operator call that is linear in some parameters.
class Site {
 public:
  virtual ~Site() = default;

  std::vector<ParameterUse> uses;
  /// Input from which factors are made, with the gradient (A [..., in] or x); may be undefined.
  torch::Tensor input;
  int64_t input_version = 0;  ///< version when used; a later in-place change invalidates the record
  /// Graph edge of h. An in-place activation may overwrite the tensor itself.
  torch::autograd::Edge edge;
  std::vector<int64_t> output_shape;  ///< shape of h

  /// Why the rule does not hold for a parameter; empty if it does.
  virtual std::string objection(const ParameterUse& use) const;
  /// Whether the rule also holds with samples along this dimension of h; always true of the first.
  virtual bool samples_may_lie_along(int64_t dimension) const { return dimension == 0; }
  /// Whether the operator may split an operand, and use it more than once internally.
  virtual bool may_feed_operands_often() const { return false; }
  /// By default the input, and a gradient per output.
  virtual SiteCost cost(int64_t samples) const;
  /// Adds the site's part of J for its parameters that use rules.
  virtual void factor(FactorBuilder& build) const = 0;
};

/// A layer without a kernel, such as one in training mode.
struct Refusal {
  std::string reason;                ///< empty if the call is allowed
  std::vector<torch::Tensor> moved;  ///< states that the call will change
};

/// A table entry; unused functions are null.
struct Rule {
  std::vector<std::string_view> operators;  ///< such as "aten::linear"
  /// The output as a use of one parameter, given an operand that is one.
  std::optional<ParameterUse> (*follow)(const Call& call) = nullptr;
  /// The site of the call; null if it is not one.
  std::unique_ptr<Site> (*recognise)(const Call& call) = nullptr;
  /// Called before the call runs.
  Refusal (*refuse)(const Call& call) = nullptr;
  /// Also asked if another operator makes the call; `call` is then the outer one.
  bool within = false;
};

/// The rules for an operator, in table order; the first that answers applies.
const std::vector<Rule>& rules_for(std::string_view name);

}  // namespace cdt::kernel
