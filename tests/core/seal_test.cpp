// Files that carry the checksum of themselves.
#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/seal.h>
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
    EXPECT_EQ(read["sealed"], true);
    read.erase("sealed");
    read.erase("checksum");
    EXPECT_EQ(read, content);
  }
  EXPECT_FALSE(require_seal("", "file"));
  EXPECT_FALSE(require_seal("\"checksum\"", "file"));
}

void expect_damaged(const std::string& text) {
  try {
    require_seal(text, "run.json");
    ADD_FAILURE() << "taken for intact: " << text;
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("run.json: is damaged"));
  }
}

TEST(Seal, TellsThatAnyBitHasChanged) {
  for (const int indent : {-1, 2}) {
    for (const char* end : {"", "\n"}) {
      const std::string text = sealed(ordered_json{{"a", 1}, {"b", "x"}}.dump(indent)) + end;
      for (size_t i = 0; i < 8 * text.size(); ++i) {
        std::string changed = text;
        changed[i / 8] = static_cast<char>(changed[i / 8] ^ 1 << i % 8);
        expect_damaged(changed);
      }
      for (size_t length = 20; length < text.size(); ++length) {
        if (text.substr(length) != "\n") expect_damaged(text.substr(0, length));
      }
    }
  }
}

TEST(Seal, IsMissedWhereItWasTakenAway) {
  const ordered_json sound = ordered_json::parse(sealed(R"({"a":1,"b":"x"})"));
  for (const int indent : {-1, 1, 2, 4}) {
    ordered_json changed = sound;
    changed["a"] = 3;
    expect_damaged(changed.dump(indent));
    changed.erase("checksum");
    expect_damaged(changed.dump(indent));
    expect_damaged(nlohmann::json(changed).dump(indent));  // in another order
  }
  // Texts that only speak of seals have none.
  EXPECT_FALSE(require_seal(R"({"sealed":{"rmse":1},"b":"\"sealed\": true"})", "file"));
}

/// Files that had a seal before there was the mark of one.
TEST(Seal, OfEarlierVersionsIsMissedByWhatIsLeftOfIt) {
  const std::string before = R"({"a":1,"b":"x")";
  const std::string text = before + R"(,"checksum":")" + checksum(before) + "\"}";
  EXPECT_TRUE(require_seal(text, "file"));
  for (size_t i = 0; i < 8 * text.size(); ++i) {
    std::string changed = text;
    changed[i / 8] = static_cast<char>(changed[i / 8] ^ 1 << i % 8);
    if (ordered_json::accept(changed)) expect_damaged(changed);
  }
}

}  // namespace
}  // namespace cdt
