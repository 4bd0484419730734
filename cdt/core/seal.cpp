#include <cdt/core/checksum.h>
#include <cdt/core/error.h>
#include <cdt/core/seal.h>

#include <algorithm>

namespace cdt {
namespace {

constexpr std::string_view kBlanks = " \n";
constexpr std::string_view kSealName = "\"checksum\"";
constexpr std::string_view kBeforeSum = "\"checksum\":\"";
constexpr std::string_view kBehindSum = "\"}";
constexpr size_t kSumLength = 16;

}  // namespace

std::string sealed(std::string object) {
  object.pop_back();  // the brace
  const bool indented = object.ends_with('\n');
  object.erase(object.find_last_not_of(kBlanks) + 1);
  const std::string sum = checksum(object);
  return object.append(indented ? ",\n  \"checksum\": \"" : ",\"checksum\":\"")
      .append(sum)
      .append(indented ? "\"\n}" : "\"}");
}

bool require_seal(std::string_view text, const std::string& source) {
  const size_t name = text.rfind(kSealName);
  if (name == std::string_view::npos || name == 0) return false;
  const size_t comma = text.find_last_not_of(kBlanks, name - 1);
  std::string seal(text.substr(name));
  std::erase_if(seal, [](char c) { return kBlanks.find(c) != std::string_view::npos; });
  const bool last = seal.starts_with(kBeforeSum) && seal.ends_with(kBehindSum) &&
                    seal.size() == kBeforeSum.size() + kSumLength + kBehindSum.size();
  if (!last || comma == std::string_view::npos || text[comma] != ',') return false;
  const std::string expected = seal.substr(kBeforeSum.size(), kSumLength);
  const std::string came = checksum(text.substr(0, comma));
  CDT_REQUIRE(came == expected, source, ": is damaged: expected the checksum ", expected,
              ", but came ", came);
  return true;
}

}  // namespace cdt
