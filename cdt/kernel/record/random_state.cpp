#include <ATen/Context.h>
#include <cdt/kernel/record/random_state.h>

#include <mutex>

namespace cdt::kernel {

RandomState::RandomState(torch::Device device) {
  const auto keep = [this](torch::Device of) {
    at::Generator generator = at::globalContext().defaultGenerator(of);
    const std::lock_guard lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  };
  keep(torch::kCPU);
  if (device.is_cuda()) keep(device);
}

void RandomState::restore() const {
  for (auto [generator, state] : states_) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

}  // namespace cdt::kernel
