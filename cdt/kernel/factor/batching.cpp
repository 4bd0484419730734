#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <cdt/kernel/factor/batching.h>
#include <torch/version.h>

#include <vector>

namespace cdt::kernel {
namespace {

using torch::Tensor;
namespace functorch = at::functorch;

#if TORCH_VERSION_MAJOR >= 2
using WarningGuard = c10::WarningUtils::WarningHandlerGuard;
#else
using WarningGuard = c10::Warning::WarningHandlerGuard;
#endif

}  // namespace

/// The stack of layers is thread-local. It is set as a whole, since pushing a layer in LibTorch
/// 1.13 also modifies a list of all threads' layers, without a lock.
struct BatchingScope::State {
  /// Catches LibTorch's warning about an operator that it calls one by one, and hides it from the
  /// user.
  class Listener : public c10::WarningHandler {
   public:
#if TORCH_VERSION_MAJOR >= 2
    void process(const c10::Warning& /*warning*/) override { heard = true; }
#else
    void process(const c10::SourceLocation& /*where*/, const std::string& /*message*/,
                 const bool /*verbatim*/) override {
      heard = true;
    }
#endif
    bool heard = false;
  };

  explicit State(int64_t count_)
      : count(count_),
        before(functorch::getDynamicLayerStack()),
        level(static_cast<int64_t>(before.size()) + 1) {
    std::vector<functorch::DynamicLayer> layers = before;
    layers.emplace_back(functorch::TransformType::Vmap, level, count,
                        functorch::RandomnessType::Error);
    functorch::setDynamicLayerStack(layers);
    functorch::setDynamicLayerFrontBackKeysIncluded(true);
  }
  ~State() {
    functorch::setDynamicLayerStack(before);
    if (before.empty()) functorch::setDynamicLayerFrontBackKeysIncluded(false);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  int64_t count;
  std::vector<functorch::DynamicLayer> before;
  int64_t level;
  Listener listener;
  WarningGuard listens{&listener};
};

BatchingScope::BatchingScope(int64_t count) : state_(std::make_unique<State>(count)) {}
BatchingScope::~BatchingScope() = default;

bool BatchingScope::one_by_one() const { return state_->listener.heard; }

Tensor BatchingScope::wrap(const Tensor& stacked) const {
  return functorch::makeBatched(stacked, 0, state_->level);
}

Tensor BatchingScope::unwrap(const Tensor& tensor) const {
  const auto* batched = functorch::maybeGetBatchedImpl(tensor);
  if (batched != nullptr && batched->level() == state_->level) {
    return batched->value().movedim(batched->bdim(), 0);
  }
  std::vector<int64_t> shape = tensor.sizes().vec();
  shape.insert(shape.begin(), state_->count);
  return tensor.unsqueeze(0).expand(shape);
}

}  // namespace cdt::kernel
