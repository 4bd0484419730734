// Coverage for libFuzzer from GCC (clang cannot read LibTorch 1.13's headers as C++20): GCC calls a
// function at each edge, and libFuzzer counts in arrays of bytes.
#include <array>
#include <cstdint>

// NOLINTBEGIN(bugprone-reserved-identifier): the compiler and libFuzzer have given these names.
extern "C" void __sanitizer_cov_8bit_counters_init(uint8_t* start, uint8_t* stop);

namespace {

std::array<uint8_t, 1 << 16> counters{};  // libFuzzer looks at all of them after each input

/// Before libFuzzer's main.
__attribute__((constructor)) void register_counters() {
  __sanitizer_cov_8bit_counters_init(counters.data(), counters.data() + counters.size());
}

}  // namespace

// libFuzzer has an empty one of its own: the linker's --wrap puts this in its place.
extern "C" __attribute__((no_sanitize_coverage, no_sanitize("address,undefined"))) void
__wrap___sanitizer_cov_trace_pc() {
  auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  place ^= place >> 16;
  ++counters.data()[place % counters.size()];
}

// Comparisons of floating-point numbers, which libFuzzer does not follow.
extern "C" void __sanitizer_cov_trace_cmpf(float, float) {}
extern "C" void __sanitizer_cov_trace_cmpd(double, double) {}
// NOLINTEND(bugprone-reserved-identifier)
