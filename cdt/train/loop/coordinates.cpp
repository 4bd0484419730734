#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>
#include <cdt/train/forms/ridge.h>
#include <cdt/train/loop/coordinates.h>

#include <algorithm>
#include <cmath>

namespace cdt::train {

using torch::Tensor;

namespace {

constexpr const char* kCurvature = "curvature";
constexpr const char* kWeighted = "weighted";

class ErrorCoordinates : public Coordinates {
 public:
  ErrorCoordinates(Tensor labels, Tensor root, double factor)
      : labels_(std::move(labels)), root_(std::move(root)), factor_(factor) {}

  int64_t size() const override { return labels_.size(0); }
  Tensor state(const Tensor& outputs) const override {
    return seed(outputs.reshape({-1}) - labels_);
  }
  Tensor moved(const Tensor& change) const override { return seed(change.reshape({-1})); }
  Tensor seed(const Tensor& v) const override { return root_.defined() ? root_ * v : v; }
  Tensor step_seed(const Tensor& v, double rate) const override {
    return seed(v) * (rate * factor_);
  }
  Tensor kernel(const Tensor& theta) const override {
    return root_.defined() ? theta * root_.unsqueeze(1) * root_ : theta;
  }
  control::Plant::Options plant(double decay) const override {
    return {.gradient_factor = factor_, .decay = decay};
  }
  double loss(const Tensor& x) const override {
    return factor_ / 2 * torch::dot(x, x).item<double>();
  }
  double sensitivity() const override { return root_.defined() ? root_.max().item<double>() : 1; }
  void save(SavedState& state) const override {
    if (root_.defined()) state.values[kWeighted] = true;
  }

 private:
  Tensor labels_;
  Tensor root_;
  double factor_;
};

/// ζ of classes, or W^½ζ with weights of samples.
class WeighedClasses : public Coordinates {
 public:
  WeighedClasses(loss::ClassCoordinates classes, const Tensor& weights) : own_(std::move(classes)) {
    if (!weights.defined()) return;
    weights_ = weights;
    root_ = weights.sqrt().unsqueeze(1).expand({-1, own_.classes - 1}).reshape({-1});
  }

  int64_t size() const override { return own_.size(); }
  Tensor state(const Tensor& outputs) const override {
    if (!torch::isfinite(outputs).all().item<bool>()) {  // too long a step, not a caller's error
      return torch::full({size()}, NAN, outputs.options());
    }
    return weighed(own_.state(outputs));
  }
  Tensor moved(const Tensor& change) const override {
    const Tensor zero_sum = change.view({own_.samples, -1}).mm(own_.basis).unsqueeze(2);
    return weighed(own_.root.matmul(zero_sum).reshape({-1}));
  }
  Tensor seed(const Tensor& v) const override {
    return own_.seed(weighed(v)).reshape({-1}) * static_cast<double>(own_.samples);
  }
  Tensor step_seed(const Tensor& v, double rate) const override {
    return own_.seed(weighed(v)).reshape({-1}) * rate;
  }
  Tensor kernel(const Tensor& theta) const override {
    const Tensor M = own_.kernel(theta);
    return root_.defined() ? M * root_.unsqueeze(1) * root_ : M;
  }
  double rank_tolerance(torch::ScalarType network) const override {
    return own_.rank_tolerance(network);
  }
  control::Plant::Options plant(double decay) const override {
    return {.decay = decay, .samples = static_cast<double>(own_.samples)};
  }
  double loss(const Tensor& x) const override {
    if (!torch::isfinite(x).all().item<bool>()) return NAN;
    if (!weights_.defined()) return own_.excess_loss(logits(x));
    const Tensor log_p = torch::log_softmax(logits(x), 1);
    const Tensor above = (own_.targets * (own_.targets.log() - log_p)).sum(1);
    return torch::dot(weights_, above).item<double>() / static_cast<double>(own_.samples);
  }
  bool quadratic() const override { return false; }
  /// ȳ = p − r·seed, so y_u = ȳ − ȳ_ε; for weighted samples, w times that.
  Tensor augment(const Tensor& x, const Tensor& v) const override {
    Tensor gradient = torch::softmax(logits(x), 1) - own_.targets;
    if (weights_.defined()) gradient = gradient * weights_.unsqueeze(1);
    return gradient - own_.seed(weighed(v)) * static_cast<double>(own_.samples);
  }
  /// H^−½Zᵀ(p − ȳ_ε)
  Tensor gradient(const Tensor& x) const override {
    const Tensor z = logits(x);
    const Tensor gradient = (torch::softmax(z, 1) - own_.targets).mm(own_.basis).unsqueeze(2);
    return weighed(own_.inverse_root.matmul(gradient).reshape({-1}));
  }
  double sensitivity() const override {
    const double steepest = torch::linalg_eigvalsh(own_.curvature).max().item<double>();
    return std::sqrt(weights_.defined() ? steepest * weights_.max().item<double>() : steepest);
  }
  int64_t bytes() const override {
    constexpr int64_t kBlocks = 3;  // H and its roots
    return kBlocks * static_cast<int64_t>(own_.curvature.nbytes());
  }
  void save(SavedState& state) const override { state.tensors[kCurvature] = own_.curvature; }

 private:
  Tensor weighed(const Tensor& v) const { return root_.defined() ? root_ * v : v; }
  /// Samples without weight count as at rest.
  Tensor logits(const Tensor& x) const {
    if (!root_.defined()) return own_.outputs(x);
    return own_.outputs(torch::where(root_ > 0, x / root_, torch::zeros_like(x)));
  }

  loss::ClassCoordinates own_;
  Tensor weights_;  ///< [r]; undefined: all 1
  Tensor root_;     ///< W^½ [r(C − 1)]
};

class ResidualCoordinates : public Coordinates {
 public:
  ResidualCoordinates(loss::Residuals residuals, loss::LossPtr loss, Tensor labels, Tensor weights,
                      std::shared_ptr<const Ranks> ranks)
      : residuals_(std::move(residuals)),
        loss_(std::move(loss)),
        labels_(std::move(labels)),
        weights_(std::move(weights)),
        ranks_(std::move(ranks)),
        factor_(
            loss_->scale(static_cast<int64_t>(ranks_->sum(static_cast<double>(labels_.size(0)))),
                         labels_.size(1))) {}

  int64_t size() const override { return residuals_.size(); }
  Tensor state(const Tensor&) const override { return residuals_.e; }
  Tensor moved(const Tensor& change) const override { return residuals_.to_residuals(change); }
  Tensor seed(const Tensor& v) const override { return residuals_.to_outputs(v); }
  Tensor step_seed(const Tensor& v, double rate) const override {
    return seed(v) * (rate * factor_);
  }
  Tensor kernel(const Tensor& theta) const override { return residual_kernel(theta, residuals_); }
  control::Plant::Options plant(double decay) const override {
    return {.gradient_factor = factor_, .decay = decay};
  }
  double loss(const Tensor& x) const override {
    return factor_ / 2 * ranks_->sum(torch::dot(x, x).item<double>());
  }
  std::optional<double> watched(const Tensor& outputs) const override {
    return ranks_->sum(loss::assess(*loss_, outputs, labels_, weights_).squares);
  }

 private:
  loss::Residuals residuals_;
  loss::LossPtr loss_;
  Tensor labels_;
  Tensor weights_;
  std::shared_ptr<const Ranks> ranks_;
  double factor_;  ///< c, for the samples of all ranks
};

}  // namespace

double Coordinates::rank_tolerance(torch::ScalarType network) const {
  return tol::rank_of_computed(size(), network);
}

Tensor Coordinates::augment(const Tensor& x, const Tensor& v) const { return v - x; }

CoordinatesPtr error_coordinates(Tensor labels, Tensor root, double factor) {
  return std::make_shared<ErrorCoordinates>(std::move(labels), std::move(root), factor);
}

CoordinatesPtr class_coordinates(loss::ClassCoordinates classes, const Tensor& weights) {
  return std::make_shared<WeighedClasses>(std::move(classes), weights);
}

bool saved_weighted(const SavedState& state) { return state.values.contains(kWeighted); }

loss::ClassCoordinates saved_curvature(const SavedState& state, const Tensor& labels,
                                       double smoothing) {
  const int64_t free = labels.size(1) - 1;
  const Tensor curvature = state.tensor(kCurvature, {labels.size(0), free, free});
  auto found = loss::class_coordinates_with(curvature.to(labels.device()), labels, smoothing);
  require_finite(found.inverse_root, "the inverse root of the checkpoint's curvature");
  return found;
}

CoordinatesPtr residual_coordinates(loss::Residuals residuals, loss::LossPtr loss, Tensor labels,
                                    Tensor weights, std::shared_ptr<const Ranks> ranks) {
  return std::make_shared<ResidualCoordinates>(std::move(residuals), std::move(loss),
                                               std::move(labels), std::move(weights),
                                               std::move(ranks));
}

}  // namespace cdt::train
