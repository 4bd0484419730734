// libFuzzer's side: the environment variable CDT_FUZZ_TARGET names the reader.
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "fuzz/mutate.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

const cdt::fuzz::Target* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("CDT_FUZZ_TARGET");
  try {
    target = &cdt::fuzz::find_target(name == nullptr ? "" : name);
  } catch (const std::exception& error) {
    std::cerr << "CDT_FUZZ_TARGET: " << error.what() << "\n";
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cdt::fuzz::run(*target, {reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  cdt::fuzz::Random random(seed);
  const auto bytes = [&](std::string_view text) {
    constexpr size_t kRoom = 64;
    std::string changed(text.substr(0, max_size));
    const size_t length = changed.size();
    changed.resize(length + kRoom);
    changed.resize(
        LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(changed.data()), length, length + kRoom));
    return changed;
  };
  const std::string changed =
      cdt::fuzz::mutate({reinterpret_cast<const char*>(data), size}, target->shape, random, bytes);
  const size_t length = std::min(changed.size(), max_size);
  std::memcpy(data, changed.data(), length);
  return length;
}
