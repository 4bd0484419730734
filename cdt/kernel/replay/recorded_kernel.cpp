#include <cdt/kernel/factor/backward.h>
#include <cdt/kernel/record/recorder.h>
#include <cdt/kernel/replay/recorded_kernel.h>

#include <algorithm>
#include <utility>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// A model that differs from its recording this often is no longer recorded.
constexpr int64_t kMostContradictions = 3;

std::vector<Tensor> detached(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> found;
  for (const Tensor& tensor : tensors) found.push_back(tensor.detach());
  return found;
}

bool same_place(const Tensor& a, const Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

/// Whether the model's backward pass has no user-defined operators.
bool can_be_recorded(const Model& model, const Tensor& x) {
  const KernelScope scope;
  PendingChecks dropped;
  return has_plain_graph(differentiable_outputs(model, x, dropped));
}

PlanKey key_of(const Model& model, const Tensor& x, const NtkOptions& options) {
  return plan_key(model, x, x.size(0), options, kBlocksOfAKernel);
}

}  // namespace

RecordedKernel::RecordedKernel(const Model& model, const Tensor& x, const NtkOptions& options,
                               int64_t width)
    : options_(options),
      plain_(model.without_plans()),
      model_(checked() ? outside_.hold_those_of(plain_) : plain_),
      x_(x.clone()),
      parameters_(detached(model.parameters())) {
  options_.progress = nullptr;
  factor_options_.accumulate = options.accumulate;
  factor_options_.passes_aside = true;
  factor_options_.probe =
      make_probe(options.seed, x.size(0), width,
                 model.parameters().front().detach().options().requires_grad(false));
  playback_ = make_playback({[this] { assemble(); }}, model.device(), /*record=*/true,
                            /*warn=*/!checked());
}

bool RecordedKernel::fits(const Model& model, const Tensor& x, const NtkOptions& options) const {
  return key_of(model, x, options) == key_of(model_, x_, options_) &&
         options.seed == options_.seed && options.replay == options_.replay &&
         options.layers == options_.layers &&
         std::ranges::equal(model.parameters(), parameters_, same_place);
}

void RecordedKernel::assemble() {
  source_ = std::make_unique<CheckedFactors>(model_, options_, factor_options_);
  found_ = unsettled_ntk(*source_, x_, options_);
  source_->remember_plan();  // checked below: if the kernel fails, all of this is discarded
  source_->checks().gather();
}

/// Compares the model's current evaluation with the replayed one. Runs on the device after the
/// replay, while the host continues.
Comparison RecordedKernel::with_autograd() const {
  PendingChecks dropped;  // the replay has its own checks
  const Tensor outputs = differentiable_outputs(plain_, x_, dropped);
  if (outputs.sizes() != found_.outputs.sizes()) throw StalePlan();
  std::vector<Tensor> found =
      gradients_at(model_.parameters(), outputs, factor_options_.probe, Graph::kFreed);
  std::vector<Tensor> expected = source_->pulled_back();
  found.push_back(outputs);
  expected.push_back(found_.outputs);
  return {found, expected};
}

Ntk RecordedKernel::kernel(const Tensor& x) {
  const KernelScope scope;
  const FreshLeavesScope fresh_leaves(model_);
  Ntk ntk;
  playback_->within([&] {
    x_.copy_(x);
    playback_->play(0);
    ntk = found_;
    ntk.theta = found_.theta.clone();  // the next replay overwrites it
    ntk.outputs = found_.outputs.clone();
    if (checked() && !with_autograd().agree()) throw StalePlan();
    source_->judge_again();
  });
  ntk.self_check = source_->self_check();
  return ntk;
}

std::optional<Ntk> replayed_ntk(const Model& model, const Tensor& x, const NtkOptions& options) {
  if (options.replay == NtkOptions::Replay::kNever || NoRecordingScope::any() ||
      !model.device().is_cuda() || x.device() != model.device() ||
      options.path != NtkOptions::Path::kAuto) {
    return std::nullopt;
  }
  const PlanKey key = key_of(model, x, options);
  const auto known = model.plans().find(key);
  if (!known || known->blocks.samples < x.size(0) || known->blocks.outputs < known->width) {
    return std::nullopt;
  }
  const bool checked = options.replay == NtkOptions::Replay::kChecked;
  if (checked && known->bytes > spare_bytes(model.device())) return std::nullopt;
  PlanMemory::Recorded& memory = model.plans().recorded();
  const std::unique_lock mine(memory.in_use, std::try_to_lock);
  if (!mine) return std::nullopt;  // another thread uses it
  if (checked && (memory.unfit || memory.contradicted >= kMostContradictions)) return std::nullopt;
  // Recording pays if the same shape is repeated, not if shapes alternate.
  const bool again = std::exchange(memory.asked, key) == key;
  try {
    if (!memory.kernel || !memory.kernel->fits(model, x, options)) {
      if (checked && !again) return std::nullopt;
      memory.kernel.reset();
      memory.unfit = checked && !can_be_recorded(model, x);
      if (memory.unfit) return std::nullopt;
      memory.kernel = std::make_unique<RecordedKernel>(model, x, options, known->width);
    }
    std::optional<Ntk> ntk = memory.kernel->kernel(x);
    memory.unfit = checked && memory.kernel->unfit();
    if (memory.unfit) memory.kernel.reset();
    return ntk;
  } catch (const RefutedRule&) {  // the usual path tries alternatives
  } catch (const StalePlan&) {
  } catch (...) {
    memory.kernel.reset();
    throw;
  }
  ++memory.contradicted;
  memory.kernel.reset();
  return std::nullopt;
}

}  // namespace cdt::kernel
