#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/kernel/record/recorder.h>
#include <cdt/train/data.h>
#include <cdt/train/method.h>

namespace cdt::train {
namespace {

using loss::LossPtr;
using torch::Tensor;

/// Integer inputs are indices, for embeddings.
bool looks_up(const Tensor& x) {
  return x.defined() && c10::isIntegralType(x.scalar_type(), /*includeBool=*/false);
}

Tensor prepare_inputs(const Tensor& x, const kernel::Model& model) {
  return looks_up(x) ? x : x.to(model.dtype());
}

void require_inputs(const Tensor& x, const kernel::Model& model, std::string_view which) {
  if (!looks_up(x)) require_floating(x, c10::str(which, " inputs"));
  CDT_REQUIRE(x.dim() >= 1 && x.size(0) >= 1, "there must be ", which,
              " samples; the inputs have shape ", x.sizes());
  if (!looks_up(x)) require_finite(x, c10::str(which, " inputs"));
  CDT_REQUIRE(x.device() == model.device(), which, " samples must lie on the model's device, ",
              model.device());
}

/// Converts labels [r] to [r, n_L]: a column of numbers, or class distributions.
Tensor with_columns(const Tensor& y, const Tensor& x, const kernel::Model& model,
                    const LossPtr& loss, std::string_view which) {
  const int64_t outputs = kernel::outputs_per_sample(model, x);
  if (!loss->classes()) {
    CDT_REQUIRE(outputs == 1, which, " labels must have shape [", x.size(0), ", ", outputs,
                "], a column for each of the model's outputs, got ", y.sizes());
    return y.unsqueeze(1);
  }
  CDT_REQUIRE(!y.is_floating_point(), which, " labels of shape ", y.sizes(),
              " must be class numbers of a whole dtype, y.to(int64), or distributions [", x.size(0),
              ", classes], got ", y.scalar_type());
  CDT_REQUIRE(outputs >= 2,
              "cross-entropy needs two classes or more, an output for each; there is ", outputs);
  const int64_t first = y.min().item<int64_t>();
  const int64_t last = y.max().item<int64_t>();
  CDT_REQUIRE(first >= 0 && last < outputs, which, " labels must be class numbers from 0 to ",
              outputs - 1, ", as many as the model has outputs, got ", first < 0 ? first : last);
  return torch::one_hot(y.to(torch::kInt64), outputs);
}

Tensor prepare_labels(Tensor y, const Tensor& x, const kernel::Model& model, const LossPtr& loss,
                      std::string_view which) {
  const std::string name = c10::str(which, " labels");
  CDT_REQUIRE(y.defined(), "there must be ", name);
  CDT_REQUIRE(y.device() == model.device(), which, " samples must lie on the model's device, ",
              model.device());
  CDT_REQUIRE(y.is_floating_point() || loss->classes(), name,
              " must be floating-point numbers, y.to(float64), got ", y.scalar_type(),
              ": class numbers need cross-entropy, the loss is ", to_string(loss));
  if (y.dim() == 1 && y.size(0) == x.size(0)) y = with_columns(y, x, model, loss, which);
  CDT_REQUIRE(y.is_floating_point() || y.dim() != 2 || y.size(1) != 1, name,
              " that are class numbers must have shape [", x.size(0), "], got ", y.sizes());
  CDT_REQUIRE(y.dim() == 2 && y.size(0) == x.size(0), name, " must have shape [", x.size(0),
              ", outputs], got ", y.sizes());
  CDT_REQUIRE(y.size(1) >= 1, name, " must have a column for each output, one at least, got shape ",
              y.sizes());
  y = y.to(torch::kFloat64);
  require_finite(y, name);
  loss::require_targets(*loss, y, name);
  return y;
}

Tensor prepare_weights(const Tensor& weights, int64_t count, const kernel::Model& model,
                       std::string_view name) {
  if (!weights.defined()) return weights;
  require_shape(weights, {count}, name);
  require_finite(weights, name);
  CDT_REQUIRE(weights.min().item<double>() > 0, name, " must be positive; the smallest is ",
              weights.min().item<double>());
  return weights.to(model.device(), torch::kFloat64);
}

bool all_equal(const Tensor& weights) {
  return !weights.defined() || (weights == weights[0]).all().item<bool>();
}

/// Removes weights that are all equal, since they express no preference. (With weight decay, or if
/// label augments keep their own weight, their size matters.)
void drop_equal_weights(TrainData& data, const TrainOptions& options) {
  if (!options.method->solves || options.weight_decay > 0 || data.ranks->several() ||
      !all_equal(data.sample_weights) || !all_equal(data.output_weights)) {
    return;
  }
  data.sample_weights = data.output_weights = Tensor();
}

}  // namespace

TrainData own_rows(TrainData all) {
  const Share own = training_share(*all.ranks, all.x.size(0));
  for (Tensor* each : {&all.x, &all.y, &all.sample_weights}) {
    if (each->defined()) *each = each->narrow(0, own.first, own.count);
  }
  return all;
}

TrainData prepare(TrainData data, const kernel::Model& model, const TrainOptions& options) {
  require_inputs(data.x, model, "training");
  data.x = prepare_inputs(data.x, model);
  data.y = prepare_labels(data.y, data.x, model, options.loss, "training");
  CDT_REQUIRE(data.x_val.defined() == data.y_val.defined(),
              "validation needs inputs and labels, or neither");
  if (data.x_val.defined()) {
    require_inputs(data.x_val, model, "validation");
    data.x_val = prepare_inputs(data.x_val, model);
    data.y_val = prepare_labels(data.y_val, data.x_val, model, options.loss, "validation");
    CDT_REQUIRE(data.y_val.size(1) == data.y.size(1), "validation labels must have ",
                data.y.size(1), " outputs a sample, got ", data.y_val.size(1));
  }
  CDT_REQUIRE(options.patience == 0 || data.x_val.defined(),
              "patience needs validation samples, got none");
  if (options.loss->classes()) {
    CDT_REQUIRE(data.y.size(1) >= 2,
                "cross-entropy needs two classes or more, a column of labels for each; there is ",
                data.y.size(1));
    require_distributions(data.y, "training labels");
    if (data.y_val.defined()) require_distributions(data.y_val, "validation labels");
    CDT_REQUIRE(!data.output_weights.defined(),
                "weights of outputs are for quadratic losses, not cross-entropy");
  }
  data.sample_weights =
      prepare_weights(data.sample_weights, data.x.size(0), model, "sample weights");
  data.output_weights =
      prepare_weights(data.output_weights, data.y.size(1), model, "output weights");
  drop_equal_weights(data, options);
  CDT_REQUIRE(options.method->weights != MethodTraits::Weights::kNone ||
                  !(data.sample_weights.defined() || data.output_weights.defined()),
              "weights enter the controller's Q; ", options.method.name(), " has no controller");
  return data;
}

}  // namespace cdt::train
