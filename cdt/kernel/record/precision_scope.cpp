#include <ATen/Context.h>
#include <cdt/kernel/record/precision_scope.h>
#include <torch/version.h>

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace cdt::kernel {
namespace {

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11)

/// The user's settings of the operators that were rounded. Operators that were not may have
/// inherited their setting from a general one, which must remain in effect.
struct PrecisionSettings {
  using Place = std::pair<at::Float32Backend, at::Float32Op>;
  std::vector<std::pair<Place, at::Float32Precision>> rounded;
};

PrecisionSettings switch_to_full_precision() {
  using at::Float32Op;
  auto& context = at::globalContext();
  PrecisionSettings before;
  for (const auto backend : {at::Float32Backend::CUDA, at::Float32Backend::MKLDNN}) {
    for (const auto op : {Float32Op::MATMUL, Float32Op::CONV, Float32Op::RNN}) {
      const auto precision = context.float32Precision(backend, op);
      if (precision == at::Float32Precision::IEEE || precision == at::Float32Precision::NONE) {
        continue;
      }
      before.rounded.push_back({{backend, op}, precision});
      context.setFloat32Precision(backend, op, at::Float32Precision::IEEE);
    }
  }
  return before;
}

void restore_precision(const PrecisionSettings& before) {
  for (const auto& [place, precision] : before.rounded) {
    at::globalContext().setFloat32Precision(place.first, place.second, precision);
  }
}

#else

struct PrecisionSettings {
  bool readable = false;
  bool convolutions = false;
  at::Float32MatmulPrecision products = at::Float32MatmulPrecision::HIGHEST;
};

PrecisionSettings switch_to_full_precision() {
  auto& context = at::globalContext();
  PrecisionSettings before;
  try {
    before.convolutions = context.allowTF32CuDNN();
    before.products = context.float32MatmulPrecision();
  } catch (const c10::Error&) {
    TORCH_WARN_ONCE(
        "TF32 was set by both of LibTorch's interfaces, so the setting cannot be read and stays as "
        "it is: kernels on a GPU may be rounded to three digits. Use one interface alone");
    return before;
  }
  before.readable = true;
  context.setAllowTF32CuDNN(false);
  context.setFloat32MatmulPrecision("highest");
  return before;
}

void restore_precision(const PrecisionSettings& before) {
  if (!before.readable) return;
  auto& context = at::globalContext();
  context.setAllowTF32CuDNN(before.convolutions);
  switch (before.products) {
    case at::Float32MatmulPrecision::HIGHEST:
      return context.setFloat32MatmulPrecision("highest");
    case at::Float32MatmulPrecision::HIGH:
      return context.setFloat32MatmulPrecision("high");
    case at::Float32MatmulPrecision::MEDIUM:
      return context.setFloat32MatmulPrecision("medium");
  }
}

#endif

/// The scopes of all threads, since the settings are global.
struct OpenPrecisionScopes {
  std::mutex mutex;
  int64_t count = 0;
  PrecisionSettings before;
};

OpenPrecisionScopes& open_precision_scopes() {
  static OpenPrecisionScopes scopes;
  return scopes;
}

}  // namespace

FullPrecisionScope::FullPrecisionScope() {
  auto& open = open_precision_scopes();
  const std::lock_guard lock(open.mutex);
  if (open.count == 0) open.before = switch_to_full_precision();
  ++open.count;
}

FullPrecisionScope::~FullPrecisionScope() {
  auto& open = open_precision_scopes();
  const std::lock_guard lock(open.mutex);
  if (--open.count == 0) restore_precision(open.before);
}

void allow_tf32(bool allowed) {
  auto& context = at::globalContext();
  context.setAllowTF32CuDNN(allowed);
  context.setFloat32MatmulPrecision(allowed ? "high" : "highest");
}

}  // namespace cdt::kernel
