// Files that carry the checksum of themselves.
#include <cdt/core/error.h>
#include <cdt/core/seal.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace cdt {
namespace {

using nlohmann::ordered_json;

TEST(Seal, IsTheLastMemberOfTheObject) {
  const ordered_json content{{"a", 1}, {"data", {{"checksum", "0123456789abcdef"}}}};
  for (const int indent : {-1, 2}) {
    const std::string plain = content.dump(indent);
    EXPECT_FALSE(require_seal(plain, "file")) << "that of the data is none";
    const std::string text = sealed(plain);
    EXPECT_TRUE(require_seal(text, "file"));
    EXPECT_TRUE(require_seal(text + "\n", "file"));
    ordered_json read = ordered_json::parse(text);
    EXPECT_EQ(read.dump(indent), text) << "laid out as the rest";
    read.erase("checksum");
    EXPECT_EQ(read, content);
  }
  EXPECT_FALSE(require_seal("", "file"));
  EXPECT_FALSE(require_seal("\"checksum\"", "file"));
}

TEST(Seal, TellsThatAnyByteHasChanged) {
  for (const int indent : {-1, 2}) {
    const std::string text = sealed(ordered_json{{"a", 1}, {"b", "x"}}.dump(indent));
    for (size_t i = 0; i < text.size(); ++i) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      bool intact = false;
      try {
        intact = require_seal(changed, "run.json");
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), testing::StartsWith("run.json: is damaged"));
      }
      EXPECT_FALSE(intact) << "byte " << i << " of " << text;
    }
  }
}

}  // namespace
}  // namespace cdt
