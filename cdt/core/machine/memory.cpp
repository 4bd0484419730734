#include <cdt/core/error.h>
#include <cdt/core/machine/memory.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/version.h>
#include <unistd.h>

#define CDT_DEVICE_STATISTICS \
  (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11))
#if CDT_DEVICE_STATISTICS
#include <c10/core/CachingDeviceAllocator.h>
#endif

#include <fstream>
#include <string>

namespace cdt {

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kName = "MemAvailable:";
    if (line.starts_with(kName)) return std::stoll(line.substr(kName.size())) * 1024;
  }
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

int64_t peak_memory() {
  rusage used{};
  return ::getrusage(RUSAGE_SELF, &used) == 0 ? int64_t{used.ru_maxrss} * 1024 : 0;
}

int64_t peak_memory_of([[maybe_unused]] c10::Device device) {
#if CDT_DEVICE_STATISTICS
  if (!device.is_cpu()) {
    auto* allocator = c10::getDeviceAllocator(device.type());
    const auto index = device.has_index() ? device.index() : c10::DeviceIndex{0};
    constexpr size_t kAll = 0;  // index of the total over small and large pieces
    return allocator->getDeviceStats(index).allocated_bytes[kAll].peak;
  }
#endif
  return 0;
}

void require_memory(double bytes, std::string_view what) {
  const auto available = static_cast<double>(available_memory());
  CDT_REQUIRE(bytes <= available, what, " needs ", fmt::format("{:.3g}", bytes / 1e9),
              " GB of memory; there are ", fmt::format("{:.3g}", available / 1e9), " GB");
}

}  // namespace cdt
