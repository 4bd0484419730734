// JSON of files: what is in it comes back, what is not as expected is refused with its place.
#include <cdt/core/io/file.h>
#include <cdt/core/io/json.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "support/temp_folder.h"

namespace cdt {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

template <class Call>
void expect_json_refused(Call call, const std::string& message) {
  try {
    call();
    ADD_FAILURE() << "expected a refusal: " << message;
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr(message));
    EXPECT_THAT(error.what(), Not(HasSubstr("json.exception")));
  }
}

TEST(Json, ValuesComeBack) {
  const JsonValue json = parse_json(
      R"({"z": "ä\n", "a": {"on": true, "n": -3, "x": 2.5, "large": 18446744073709551615},
          "lists": {"t": ["a", "b"], "x": [1, null, 2e3], "n": [0, 7]}, "null": null})",
      "x.json");
  EXPECT_EQ(json["z"].text(), "ä\n");
  EXPECT_TRUE(json["a"]["on"].flag());
  EXPECT_EQ(json["a"]["n"].whole(), -3);
  EXPECT_EQ(json["a"]["n"].number(), -3.0);
  EXPECT_EQ(json["a"]["x"].number(), 2.5);
  EXPECT_EQ(json["a"]["large"].seed(), ~uint64_t{0});
  EXPECT_THAT(json["lists"]["t"].texts(), ElementsAre("a", "b"));
  EXPECT_THAT(json["lists"]["n"].counts(2), ElementsAre(0, 7));
  const auto numbers = json["lists"]["x"].numbers(3);
  EXPECT_EQ(numbers[2], 2000.0);
  EXPECT_TRUE(std::isnan(numbers[1]));
  EXPECT_EQ(json.members()[0].first, "z") << "in the order of the file";
  EXPECT_EQ(json["lists"]["n"].list()[1].count(), 7);
  EXPECT_FALSE(json["null"].exists());
  EXPECT_FALSE(json["absent"]["deeper"].exists());
  EXPECT_EQ(json["absent"].text_or("none"), "none");
  EXPECT_EQ(json["null"].count_or(5), 5);
  EXPECT_TRUE(std::isnan(json["absent"].number_or_nan()));
  const JsonValue part = parse_json(R"({"a": {"b": 1}})", "y.json")["a"];
  EXPECT_EQ(part["b"].count(), 1) << "a part outlives the whole";
}

TEST(Json, WhatIsNotAsExpectedIsRefusedWithItsPlace) {
  const JsonValue json = parse_json(
      R"({"result": {"steps": "x", "a b": [1, 2, "3"], "n": -1, "big": 9223372036854775808},
          "list": [{"y": 1.5}]})",
      "run.json");
  expect_json_refused([&] { json["result"]["steps"].whole(); },
                      R"(run.json: result.steps: expected a whole number, got "x")");
  expect_json_refused([&] { json["result"]["a b"].numbers(); },
                      R"(run.json: result."a b"[2]: expected a finite number, got "3")");
  expect_json_refused([&] { json["result"]["a b"].numbers(2); },
                      R"(expected a list of 2 numbers, got [1,2,"3"])");
  expect_json_refused([&] { json["result"]["n"].count(); },
                      "result.n: expected a whole number, 0 or above, got -1");
  expect_json_refused([&] { json["result"]["n"].seed(); }, "0 or above, got -1");
  expect_json_refused([&] { json["result"]["big"].whole(); }, "got 9223372036854775808");
  expect_json_refused([&] { json["list"].list()[0]["y"].whole(1, 9); },
                      "list[0].y: expected a whole number from 1 to 9, got 1.5");
  expect_json_refused([&] { json["list"]["y"]; }, "run.json: list: expected an object, got [");
  expect_json_refused([&] { json["missing"].flag(); },
                      "run.json: missing: expected true or false, got nothing");
  expect_json_refused(
      [&] {
        json["result"]["steps"].name(
            [](const std::string&) -> int { throw InvalidArgument("expected a or b"); });
      },
      "run.json: result.steps: expected a or b");
  expect_json_refused([] { parse_json("[1]", "run.json").text(); }, "run.json: expected text");
  expect_json_refused([] { parse_json("[1]", "run.json").list()[0].text(); }, "run.json: [0]: ");
}

TEST(Json, WhatIsNoJsonIsRefused) {
  const auto refused = [](const std::string& text, const std::string& message) {
    SCOPED_TRACE(text.substr(0, 40));
    expect_json_refused([&] { parse_json(text, "dir/x.json"); }, "dir/x.json: ");
    expect_json_refused([&] { parse_json(text, "dir/x.json"); }, message);
  };
  refused("", "is not JSON: malformed at line 1, column 1");
  refused("{\n  \"a\": ]}", "is not JSON: malformed at line 2, column 8");
  refused("{} {}", "line 1, column 4");
  refused("[1e999]", "a number is too large at line 1");
  refused("[\"\xff\"]", "malformed at line 1, column 3");
  refused("[\"\\ud800\"]", "malformed");
  refused(std::string("{}\0 1", 5), "a NUL byte at line 1, column 3");
  refused(R"({"a": {"b": 1, "b": 2}})", "got \"b\" twice");
  refused("nul", "malformed");
}

TEST(Json, SizeAndDepthAreBounded) {
  const auto nested = [](int depth, const std::string& open, const std::string& close) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += open;
    text += "1";
    for (int i = 0; i < depth; ++i) text += close;
    return text;
  };
  EXPECT_NO_THROW(parse_json(nested(kDeepestJson, "[", "]"), "x"));
  expect_json_refused([&] { parse_json(nested(kDeepestJson + 1, "[", "]"), "x"); }, "nests deeper");
  expect_json_refused([&] { parse_json(nested(100'000, "[", "]"), "x"); }, "nests deeper");
  expect_json_refused([&] { parse_json(nested(100'000, "{\"a\":", "}"), "x"); }, "nests deeper");
  expect_json_refused([] { parse_json(std::string(kLongestJson + 1, ' '), "x"); },
                      "x: expected JSON of at most 100000000 bytes");
  const test::TempFolder folder;
  std::ofstream(folder / "long.json") << "{}";
  std::filesystem::resize_file(folder / "long.json", kLongestJson + 1);  // sparse: no disk is used
  expect_json_refused([&] { read_json(folder / "long.json"); }, "long.json: expected a file of");
  // Each new name must not be looked up among all that came before.
  std::string names = "{\"first\":0";
  for (int i = 0; i < 200'000; ++i) names += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(parse_json(names + "}", "x").members().size(), 200'001U);
}

TEST(Json, FormatsAreNamed) {
  EXPECT_NO_THROW(parse_json(R"({"format": "cdt-x-1"})", "x").require_format("cdt-x-1"));
  const auto refused = [](const std::string& text, const std::string& message) {
    expect_json_refused([&] { parse_json(text, "x").require_format("cdt-x-1"); }, message);
  };
  refused(R"({"format": "cdt-x-2", "version": "9.0"})",
          R"(x: expected the format "cdt-x-1", got "cdt-x-2" of cdt 9.0)");
  refused(R"({"format": 3, "version": 4})", "got 3");
  refused("{}", "a file without a format");
  refused("[1]", "a file without a format");
  refused("\"cdt-x-1\"", "a file without a format");
}

TEST(Json, TextThatIsNotUtf8IsRefusedOrReplaced) {
  const ordered_json bad{{"a", {{"files", {"x", "\xff.csv"}}}}};
  expect_json_refused([&] { dump_exactly(bad, "run.json"); },
                      "run.json: a.files[1]: expected UTF-8 text, got other bytes");
  EXPECT_EQ(dump_readably(bad, -1), "{\"a\":{\"files\":[\"x\",\"\xEF\xBF\xBD.csv\"]}}");
  const ordered_json name{{"\xff", 1}};
  expect_json_refused([&] { dump_exactly(name, "x"); }, "x: expected UTF-8 text");
  EXPECT_EQ(dump_exactly({{"ä", 1.5}}, "x"), "{\"ä\":1.5}");
}

TEST(FileNames, LeadNowhereElse) {
  for (const std::string good : {"1", "500x500-cdt-lr0.1", "ä b", "a..b"}) {
    EXPECT_NO_THROW(require_file_name(good, "a name")) << good;
  }
  EXPECT_NO_THROW(require_file_name(std::string(200, 'n'), "a name"));
  for (const std::string bad :
       {"", ".", "..", "../x", "a/b", "/etc/x", ".hidden", "a\nb", "a\x1b[2J", "a\x7f"}) {
    expect_json_refused([&] { require_file_name(bad, "the name of a thing"); },
                        "the name of a thing: expected a name for a file");
  }
  expect_json_refused([] { require_file_name(std::string(201, 'n'), "x"); }, "1 to 200 bytes");
  expect_json_refused([] { require_file_name(std::string("a\0b", 3), "x"); }, "x: ");
}

}  // namespace
}  // namespace cdt
