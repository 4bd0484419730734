#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/json.h>
#include <cdt/core/io/seal.h>
#include <cdt/core/version.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

namespace cdt {
namespace {

constexpr std::string_view kBlanks = " \n\r\t";
constexpr std::string_view kMark = "\"sealed\"", kMarkValue = ":true";
constexpr std::string_view kBeforeSum = ",\"checksum\":\"", kBehindSum = "\"}";
constexpr size_t kSumLength = 16;
/// Number of bytes by which the end of a text may differ from a seal and still count as a damaged
/// one.
constexpr int kFew = 4;

bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }

/// Whether there is a member `"sealed": true` anywhere; within strings quotes are escaped.
bool has_mark(std::string_view text) {
  for (size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at + 1)) {
    std::string behind(text.substr(at + kMark.size(), 20));
    std::erase_if(behind, is_blank);
    if (behind.starts_with(kMarkValue)) return true;
  }
  return false;
}

/// Major and minor number of a text that begins with a version, otherwise empty.
std::optional<std::pair<int, int>> version_at(const std::string& text) {
  int major = 0, minor = 0;
  if (std::sscanf(text.c_str(), "%d.%d", &major, &minor) != 2) return std::nullopt;
  return std::pair(major, minor);
}

/// Whether the text says that it was written by this version, or an earlier one that seals. (Later
/// versions may have another format, which its reader reports.)
bool is_of_sealing_version(std::string_view text) {
  constexpr std::string_view kName = "\"version\"";
  const size_t at = text.find(kName);
  if (at == std::string_view::npos) return false;
  std::string behind(text.substr(at + kName.size(), 20));
  std::erase_if(behind, [](char c) { return is_blank(c) || c == ':' || c == '"'; });
  const auto found = version_at(behind);
  return found && *found >= std::pair(0, 2) && *found <= version_at(kVersion);
}

/// The end of the text without blanks, of the length of a seal; empty if it is shorter.
std::string ending_of(std::string_view text) {
  std::string end(text.substr(text.size() - std::min<size_t>(text.size(), 200)));
  std::erase_if(end, is_blank);
  const size_t length = kBeforeSum.size() + kSumLength + kBehindSum.size();
  return end.size() < length ? "" : end.substr(end.size() - length);
}

/// The checksum of an ending that is a seal, or nearly one; `wrong` counts the differing bytes.
std::string sum_in(const std::string& ending, int& wrong) {
  const std::string sum = ending.substr(kBeforeSum.size(), kSumLength);
  const std::string seal = std::string(kBeforeSum).append(sum).append(kBehindSum);
  wrong = 0;
  for (size_t i = 0; i < seal.size(); ++i) wrong += ending[i] != seal[i] ? 1 : 0;
  for (const char c : sum) {
    wrong += std::string_view("0123456789abcdef").find(c) == std::string_view::npos ? 1 : 0;
  }
  return sum;
}

}  // namespace

std::string sealed(std::string object) {
  const bool indented = object.starts_with("{\n");
  object.replace(0, 1, indented ? "{\n  \"sealed\": true," : "{\"sealed\":true,");
  object.pop_back();  // removes the brace
  object.erase(object.find_last_not_of(kBlanks) + 1);
  const std::string sum = checksum(object);
  return object.append(indented ? ",\n  \"checksum\": \"" : kBeforeSum)
      .append(sum)
      .append(indented ? "\"\n}" : kBehindSum);
}

bool require_seal(std::string_view text, const std::string& source) {
  int wrong = kFew + 1;
  const std::string ending = ending_of(text);
  const std::string expected = ending.empty() ? "" : sum_in(ending, wrong);
  if (wrong == 0) {
    const std::string came = checksum(text.substr(0, text.rfind(kBeforeSum[0])));
    CDT_REQUIRE(came == expected, source, ": is damaged: expected the checksum ", expected,
                ", got ", came);
    return true;
  }
  CDT_REQUIRE(wrong > kFew && !has_mark(text) && !is_of_sealing_version(text), source,
              ": is damaged: expected a checksum of all before it as its last member");
  return false;
}

std::string read_sealed(const std::filesystem::path& path) {
  std::string text = read_regular_file(path, kLongestJson);
  require_seal(text, path.string());
  return text;
}

}  // namespace cdt
