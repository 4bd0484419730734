#include <cdt/kernel/recorded_kernel.h>

namespace cdt::kernel {
namespace {

using torch::Tensor;

std::vector<const void*> places_of(const Model& model) {
  std::vector<const void*> places;
  for (const Tensor& p : model.parameters()) places.push_back(p.data_ptr());
  return places;
}

PlanKey key_of(const Model& model, const Tensor& x, const NtkOptions& options) {
  return plan_key(model, x, x.size(0), options, kBlocksOfAKernel);
}

}  // namespace

RecordedKernel::RecordedKernel(const Model& model, const Tensor& x, const NtkOptions& options,
                               int64_t width)
    : options_(options),
      model_(model.without_plans()),
      x_(x.clone()),
      parameters_(places_of(model)) {
  options_.progress = nullptr;
  factor_options_.accumulate = options.accumulate;
  factor_options_.probe =
      make_probe(options.seed, x.size(0), width,
                 model.parameters().front().detach().options().requires_grad(false));
  playback_ = make_playback({[this] { assemble(); }}, model.device(), /*record=*/true);
}

bool RecordedKernel::fits(const Model& model, const Tensor& x, const NtkOptions& options) const {
  return key_of(model, x, options) == key_of(model_, x_, options_) &&
         options.seed == options_.seed && places_of(model) == parameters_;
}

void RecordedKernel::assemble() {
  source_ = std::make_unique<CheckedFactors>(model_, options_, factor_options_);
  found_ = unsettled_ntk(*source_, x_, options_);
  source_->remember_plan();  // judged below: a kernel that fails takes all of this with it
  source_->checks().gather();
}

Ntk RecordedKernel::kernel(const Tensor& x) {
  const KernelScope scope;
  Ntk ntk;
  playback_->within([&] {
    x_.copy_(x);
    playback_->play(0);
    ntk = found_;
    ntk.theta = found_.theta.clone();  // the next one is written over it
    ntk.outputs = found_.outputs.clone();
    source_->judge_again();
  });
  ntk.self_check = source_->self_check();
  return ntk;
}

std::optional<Ntk> replayed_ntk(const Model& model, const Tensor& x, const NtkOptions& options) {
  if (!options.repeatable || NoRecordingScope::any() || !model.device().is_cuda() ||
      x.device() != model.device() || options.path != NtkOptions::Path::kAuto) {
    return std::nullopt;
  }
  const auto known = model.plans().find(key_of(model, x, options));
  if (!known || known->blocks.samples < x.size(0) || known->blocks.outputs < known->width) {
    return std::nullopt;
  }
  PlanMemory::Recorded& memory = model.plans().recorded();
  const std::unique_lock mine(memory.in_use, std::try_to_lock);
  if (!mine) return std::nullopt;  // another thread is at it
  try {
    if (!memory.kernel || !memory.kernel->fits(model, x, options)) {
      memory.kernel = std::make_unique<RecordedKernel>(model, x, options, known->width);
    }
    return memory.kernel->kernel(x);
  } catch (const RefutedRule&) {  // the usual way has more to try
  } catch (const StalePlan&) {
  } catch (...) {
    memory.kernel.reset();
    throw;
  }
  memory.kernel.reset();
  return std::nullopt;
}

}  // namespace cdt::kernel
