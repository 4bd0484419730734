#include <cdt/core/error.h>
#include <cdt/core/memory.h>
#include <fmt/format.h>
#include <unistd.h>

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

void require_memory(double bytes, std::string_view what) {
  const auto available = static_cast<double>(available_memory());
  CDT_REQUIRE(bytes <= available, what, " needs ", fmt::format("{:.3g}", bytes / 1e9),
              " GB of memory; there are ", fmt::format("{:.3g}", available / 1e9), " GB");
}

}  // namespace cdt
