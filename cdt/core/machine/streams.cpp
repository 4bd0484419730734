#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cdt/core/machine/streams.h>

#include <map>
#include <utility>

namespace cdt {

c10::Stream thread_stream(torch::Device device, size_t number) {
  static thread_local std::map<std::pair<int, size_t>, c10::Stream> streams;
  const auto found = streams.find({device.index(), number});
  if (found != streams.end()) return found->second;
  const c10::impl::VirtualGuardImpl kind(device.type());
  const c10::Stream made = kind.getStreamFromGlobalPool(device);
  return streams.emplace(std::pair{device.index(), number}, made).first->second;
}

void follow(const c10::Stream& later, const c10::Stream& earlier) {
  c10::Event reached(earlier.device_type());
  reached.record(earlier);
  reached.block(later);
}

Aside::Aside(torch::Device device, size_t number) {
  if (!device.is_cuda()) return;
  outside_ = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  inside_ = thread_stream(device, number);
}

Aside::~Aside() {
  try {
    join();
  } catch (const c10::Error&) {  // the device has failed, which is reported elsewhere
  }
}

void Aside::run(const std::function<void()>& work) {
  if (!inside_) return work();
  follow(*inside_, *outside_);
  busy_ = true;
  const c10::StreamGuard guard(*inside_);
  work();
}

void Aside::wait() {
  if (busy_) follow(*outside_, *inside_);
}

void Aside::join() {
  wait();
  busy_ = false;
}

}  // namespace cdt
