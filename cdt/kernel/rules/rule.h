/// Layer rules: what an operator call says about the Jacobian of the parameters in it.
///
/// A rule is an entry of an open table (rules/table.cpp), found by the names of its operators. It
/// may follow a parameter through an operator (a transposition, a constant factor), recognise a
/// site (a call that is linear in parameters, with their part of the Jacobian in factored form), or
/// refuse a layer. A new kind of layer is a new file in rules/ and its line in the table: neither
/// the recorder nor the factorization knows any operator.
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

/// An operand that is scale·θ_p or scale·θ_pᵀ, or such a part of θ_p: entries that follow each
/// other, in any shape.
struct ParameterUse {
  size_t parameter = 0;
  double scale = 1;
  bool transposed = false;
  size_t argument = 0;         ///< of the call: where the operand stands
  int64_t element = -1;        ///< of a list there; −1: the argument itself
  int64_t offset = 0;          ///< its first entry in θ_p
  std::vector<int64_t> shape;  ///< before it was transposed, or copied
  bool copied = false;  ///< it repeats what is described here, along new or single dimensions

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
  /// A number, or a zero-dimensional tensor that no gradient flows to.
  std::optional<double> constant(size_t i) const;
  /// The version of a tensor before the call, which may have written to its first argument.
  int64_t version(size_t i) const;
  /// The parameter that argument i is, up to a factor and a transposition; none if it is anything
  /// else, or copies of one.
  virtual std::optional<ParameterUse> parameter(size_t i) const = 0;
  /// Likewise, of a tensor that the call takes; copies too.
  virtual std::optional<ParameterUse> parameter_in(const torch::Tensor& tensor) const = 0;
  virtual bool depends_on_inputs(const torch::Tensor& tensor) const = 0;
  virtual int64_t samples() const = 0;  ///< b
  /// To call the operator again; none if it is none of LibTorch's.
  virtual std::optional<c10::OperatorHandle> handle() const = 0;
  /// h; undefined while the call has not returned.
  const torch::Tensor& output() const { return output_; }

 protected:
  std::string name_;
  std::vector<c10::IValue> arguments_;
  int64_t first_version_ = 0;
  torch::Tensor output_;
};

/// What the factorization tells a site, and where the site leaves its factors.
class FactorBuilder {
 public:
  /// Gradients G [b, c, T, d…] of c of the network's outputs at the site's h, seen as [b, T, d…].
  torch::Tensor gradient;
  /// Of h, where its samples lie: along the first dimension (possibly T rows of each), or along
  /// another one, which has been moved to the front of the gradient; T = 1, then.
  int64_t sample_dimension = 0;
  torch::ScalarType accumulate = torch::kFloat64;
  int64_t slice = int64_t{1} << 20;  ///< entries of a temporary

  virtual ~FactorBuilder() = default;
  /// Whether the parameter's Jacobian is to come from rules.
  virtual bool by_rule(const ParameterUse& use) const = 0;
  /// Whether all of the parameter is used here, and nowhere else.
  virtual bool used_once(const ParameterUse& use) const = 0;
  /// Whether J of a weight takes fewer operations as rows than as outer products.
  virtual bool as_rows(const ParameterUse& use) const = 0;
  /// Adds to J of a weight, of the shape [left, right] where the operand is not transposed.
  virtual void add(const ParameterUse& weight, OuterProduct term) = 0;
  /// The same with a bias that joins the weight; both are used once.
  virtual void add_joined(const ParameterUse& weight, const ParameterUse& bias,
                          OuterProduct term) = 0;
  /// Adds rows [b·c, numel of the operand] to J of one parameter.
  virtual void add_rows(const ParameterUse& use, const torch::Tensor& rows) = 0;

  int64_t samples() const { return gradient.size(0); }
  int64_t outputs() const { return gradient.size(1); }
  /// Something with the leading dimensions of h, its samples along the first one.
  torch::Tensor samples_first(const torch::Tensor& t) const {
    return sample_dimension == 0 ? t : t.movedim(sample_dimension, 0);
  }
};

/// Numbers that the factors of a site hold, for all samples of the call together.
struct SiteCost {
  int64_t shared = 0;      ///< whatever the number of outputs
  int64_t per_output = 0;  ///< for each output of the network
  int64_t passing = 0;     ///< for each output, held only until the factors are made
  /// Shapes of the outer products that it adds: of a weight [in, out] at so many positions a
  /// sample.
  struct Term {
    ParameterUse use;
    int64_t positions = 1;
    int64_t in = 1;
    int64_t out = 1;
    bool rows_only = false;       ///< it is no such product: in·out numbers a row, in any case
    bool one_hot = false;         ///< the input is an index, of `in` that there are
    int64_t kept = 0;             ///< beside `shared`, as outer products
    int64_t kept_per_output = 0;  ///< likewise
  };
  std::vector<Term> terms;
};

/// One operator call that is linear in some parameters.
class Site {
 public:
  virtual ~Site() = default;

  std::vector<ParameterUse> uses;
  /// What the factors are made from beside the gradient (A [..., in] or x); may be undefined.
  torch::Tensor input;
  int64_t input_version = 0;  ///< when it was used: a later in-place change spoils the record
  /// Of h. The tensor itself may be overwritten by an in-place activation.
  torch::autograd::Edge edge;
  std::vector<int64_t> output_shape;  ///< of h

  /// Why the rule does not hold for a parameter after all; empty if it does.
  virtual std::string objection(const ParameterUse& use) const;
  /// Whether the rule holds with the samples along this dimension of h, too. Of the first one it
  /// does.
  virtual bool samples_may_lie_along(int64_t dimension) const { return dimension == 0; }
  /// Whether the operator may take an operand apart, and use it more than once within.
  virtual bool may_feed_operands_often() const { return false; }
  /// By default the input, and a gradient per output.
  virtual SiteCost cost(int64_t samples) const;
  /// The site's part of J for those of its parameters that are to come from rules.
  virtual void factor(FactorBuilder& build) const = 0;
};

/// A layer that has no kernel, such as one in training mode.
struct Refusal {
  std::string reason;                ///< empty if the call is all right
  std::vector<torch::Tensor> moved;  ///< states that the call is about to change
};

/// An entry of the table; of its functions those that apply.
struct Rule {
  std::vector<std::string_view> operators;  ///< as "aten::linear"
  /// The output as one parameter alone, made from an operand that is one.
  std::optional<ParameterUse> (*follow)(const Call& call) = nullptr;
  /// The site that the call is; null if it is none.
  std::unique_ptr<Site> (*recognise)(const Call& call) = nullptr;
  /// Asked before the call runs.
  Refusal (*refuse)(const Call& call) = nullptr;
  /// Also asked where another operator makes the call; `call` is that other one.
  bool within = false;
};

/// The rules for an operator, in the order of the table: the first that answers counts.
const std::vector<Rule>& rules_for(std::string_view name);

}  // namespace cdt::kernel
