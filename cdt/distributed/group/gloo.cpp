// Tensors on CPUs, by Gloo: every part of a sum is added in a fixed order of the ranks, by one
// rank.
#include <cdt/distributed/store/wire.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace cdt::distributed {
namespace {

using Gloo = c10d::ProcessGroupGloo;

class GlooWire : public ProcessWire<Gloo> {
 public:
  using ProcessWire::ProcessWire;

  torch::Device device() const override { return torch::kCPU; }
  bool ends(c10d::Work& work, std::chrono::milliseconds most) const override {
    if (work.isCompleted()) return true;
    try {
      work.wait(most);
    } catch (const std::exception&) {
      if (work.isCompleted()) throw;
    }
    return work.isCompleted();
  }
};

/// Uses GLOO_SOCKET_IFNAME, as LibTorch does, or the network of the rendezvous.
std::shared_ptr<gloo::transport::Device> make_device(const Place& place) {
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME")) {
    return Gloo::createDeviceForInterface(interface);
  }
  return Gloo::createDeviceForHostname(own_address(place.address));
}

}  // namespace

std::unique_ptr<Wire> make_gloo(const WireOptions& options) {
  const auto wanted = Gloo::Options::create(options.exchange);
  wanted->devices.push_back(make_device(options.place));
  return std::make_unique<GlooWire>(
      c10::make_intrusive<Gloo>(options.store, static_cast<int>(options.place.rank),
                                static_cast<int>(options.place.size), wanted));
}

}  // namespace cdt::distributed
