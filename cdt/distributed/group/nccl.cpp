// Tensors on GPUs, by NCCL: one rank per GPU.
#include <c10/cuda/CUDAFunctions.h>
#include <cdt/distributed/store/wire.h>

#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace cdt::distributed {
namespace {

using Nccl = c10d::ProcessGroupNCCL;
using Clock = std::chrono::steady_clock;

class NcclWire : public ProcessWire<Nccl> {
 public:
  NcclWire(c10::intrusive_ptr<Nccl> process, torch::Device device)
      : ProcessWire(std::move(process)), device_(device) {}
  ~NcclWire() override {
    if (process_) process_->shutdown();
  }

  torch::Device device() const override { return device_; }
  /// Polls, since Work::wait with a time-out would end all exchanges.
  bool ends(c10d::Work& work, std::chrono::milliseconds most) const override {
    const auto end = Clock::now() + most;
    constexpr std::chrono::microseconds kLongest{1000};
    for (std::chrono::microseconds pause{10}; !work.isCompleted();
         pause = std::min(2 * pause, kLongest)) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(pause);
    }
    return true;
  }

 private:
  torch::Device device_;
};

}  // namespace

std::unique_ptr<Wire> make_nccl(const WireOptions& options) {
  const int64_t index = gpu_of(options.place, c10::cuda::device_count());
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  const auto wanted = Nccl::Options::create();
  wanted->timeout = options.exchange;
  return std::make_unique<NcclWire>(
      c10::make_intrusive<Nccl>(options.store, static_cast<int>(options.place.rank),
                                static_cast<int>(options.place.size), wanted),
      torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(index)));
}

}  // namespace cdt::distributed
