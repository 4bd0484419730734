// Structs that describe themselves: what is written comes back, what is not as described is refused
// with its place.
#include <cdt/core/io/json_fields.h>
#include <gmock/gmock.h>

#include <cmath>

namespace cdt {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

enum class Colour { kRed, kBlue };
std::string to_string(Colour colour) { return colour == Colour::kRed ? "red" : "blue"; }
Colour parse_colour(const std::string& name) {
  if (name == "red") return Colour::kRed;
  if (name == "blue") return Colour::kBlue;
  throw InvalidArgument("a colour must be one of red, blue, got '" + name + "'");
}

struct Point {
  int64_t at = 0;
  double loss = 7;

  void fields(Fields& f) {
    f.need("at", at);
    f("loss", loss);
  }
};

struct Named {
  std::string name;
  std::vector<std::string> values;
};

/// A part of every kind.
struct Everything {
  std::string text = "none";
  bool on = false;
  int threads = 1;
  uint64_t seed = 0;
  double rate = 0.5;
  double unknown = 0;
  Colour colour = Colour::kRed;
  std::optional<double> maybe;
  std::optional<Point> point;
  std::vector<double> numbers;
  std::vector<int64_t> counts;
  std::vector<std::string> texts;
  std::vector<Point> points;
  std::vector<std::vector<int64_t>> square;
  std::map<std::string, std::string> files;
  std::vector<Named> settings;
  std::string json;
  int64_t members = 1;
  double factor = 1;
  std::vector<double> pairs;
  int64_t rare = 3;

  void fields(Fields& f) {
    f.format("everything-1");
    f("text", text);
    f("on", on);
    f("threads", threads);
    f("seed", seed);
    f("rate", rate);
    f("unknown", unknown);
    f.spelled("colour", colour, to_string, parse_colour);
    f("maybe", maybe);
    f.some("point", point);
    f("numbers", numbers);
    f("counts", counts);
    f("texts", texts);
    f("points", points);
    if (f.has("square")) {
      f.each("square", square, [&](auto& row) { f.here(row, counts.size()); });
    }
    f("files", files);
    if (f.has("settings")) {
      f.object("settings", [&] {
        f.members(settings, &Named::name, [&](Named& each) { f.words(each.values); });
      });
    }
    if (f.has("json", !json.empty())) f.json("json", json);
    f.whole("members", members, 1, 9);
    f.need("factor", factor);
    f.require(factor > 0, "factor", "a number above zero");
    f.need("pairs", pairs, counts.size());
    f.some("rare", rare, int64_t{3});
  }
};

Everything filled() {
  Everything all;
  all.text = "ä\n";
  all.on = true;
  all.threads = 4;
  all.seed = ~uint64_t{0};
  all.rate = 0.1;
  all.unknown = NAN;
  all.colour = Colour::kBlue;
  all.maybe = 2.5;
  all.point = Point{3, 0.25};
  all.numbers = {1.5, NAN, INFINITY};
  all.counts = {0, 7};
  all.texts = {"a", ""};
  all.points = {{1, 0.5}, {2, NAN}};
  all.square = {{1, 2}, {3, 4}};
  all.files = {{"a.csv", "1f"}, {"b.csv", "2e"}};
  all.settings = {{"switch", {}}, {"one", {"0.1"}}, {"two", {"a", "b"}}};
  all.json = R"({"n": [3]})";
  all.members = 9;
  all.factor = 2;
  all.pairs = {3, 4};
  all.rare = 5;
  return all;
}

// The text as it stands in files: the order of the description, null for what JSON does not know.
constexpr const char* kText =
    R"({"format":"everything-1","text":"ä\n","on":true,"threads":4,"seed":18446744073709551615,)"
    R"("rate":0.1,"unknown":null,"colour":"blue","maybe":2.5,"point":{"at":3,"loss":0.25},)"
    R"("numbers":[1.5,null,null],"counts":[0,7],"texts":["a",""],)"
    R"("points":[{"at":1,"loss":0.5},{"at":2,"loss":null}],"square":[[1,2],[3,4]],)"
    R"("files":{"a.csv":"1f","b.csv":"2e"},)"
    R"("settings":{"switch":true,"one":"0.1","two":["a","b"]},"json":{"n":[3]},)"
    R"("members":9,"factor":2.0,"pairs":[3.0,4.0],"rare":5})";

Everything read(const std::string& text) {
  return from_json_value<Everything>(parse_json(text, "x.json"));
}

TEST(Fields, AreWrittenInTheirOrder) { EXPECT_EQ(to_json_value(filled()).dump(), kText); }

TEST(Fields, WhatWasWrittenComesBack) {
  const Everything all = read(kText);
  EXPECT_EQ(to_json_value(all).dump(), kText);
  EXPECT_EQ(all.colour, Colour::kBlue);
  EXPECT_EQ(all.seed, ~uint64_t{0});
  EXPECT_TRUE(std::isnan(all.unknown)) << "null is NaN, not what was there before";
  EXPECT_TRUE(std::isnan(all.numbers[2]));
  EXPECT_TRUE(std::isnan(all.points[1].loss));
  EXPECT_EQ(all.point->at, 3);
  EXPECT_TRUE(all.settings[0].values.empty());
  EXPECT_THAT(all.settings[2].values, ElementsAre("a", "b"));
  EXPECT_EQ(all.files.at("b.csv"), "2e");
  EXPECT_EQ(nlohmann::json::parse(all.json)["n"][0], 3);
}

// As files of earlier versions lack parts, and unfinished runs have null.
TEST(Fields, WhatIsMissingKeepsItsValue) {
  for (const char* rest :
       {"", R"(, "text": null, "on": null, "threads": null, "maybe": null, "point": null,
          "numbers": null, "points": null, "files": null, "settings": null, "json": null, "rare": null)"}) {
    const Everything all = read(c10::str(
        R"({"format": "everything-1", "colour": "red", "members": 1, "factor": 1, "pairs": [])",
        rest, "}"));
    EXPECT_EQ(all.text, "none");
    EXPECT_EQ(all.threads, 1);
    EXPECT_EQ(all.rate, 0.5);
    EXPECT_EQ(all.rare, 3);
    EXPECT_FALSE(all.maybe || all.point);
    EXPECT_TRUE(all.numbers.empty() && all.files.empty() && all.settings.empty());
    EXPECT_EQ(to_json_value(all).contains("rare"), false) << "and is left out where it is as usual";
  }
}

TEST(Fields, WhatIsNotAsDescribedIsRefusedWithItsPlace) {
  const auto refused = [](const std::string& part, const std::string& value,
                          const std::string& message) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(kText);
    json[nlohmann::ordered_json::json_pointer(part)] = nlohmann::ordered_json::parse(value);
    EXPECT_THAT([&] { read(json.dump()); },
                ThrowsMessage<InvalidArgument>(testing::HasSubstr("x.json: " + message)));
  };
  refused("/format", R"("everything-2")",
          R"(expected the format "everything-1", got "everything-2")");
  refused("/text", "3", "text: expected text, got 3");
  refused("/on", "1", "on: expected true or false");
  refused("/threads", "1e10", "threads: expected a whole number from 0 to 2147483647");
  refused("/seed", "-1", "seed: expected a whole number, 0 or above");
  refused("/rate", R"("x")", "rate: expected a finite number");
  refused("/colour", R"("green")", "colour: a colour must be one of red, blue, got 'green'");
  refused("/point", "[1]", "point: expected an object, got [1]");
  refused("/point/at", "-1", "point.at: expected a whole number, 0 or above, got -1");
  refused("/points/1/at", "null", "points[1].at: expected a whole number, 0 or above, got nothing");
  refused("/points", "{}", "points: expected a list");
  refused("/counts/1", "0.5", "counts[1]: expected a whole number");
  refused("/square/1", "[3]", "square[1]: expected a list of 2 whole numbers, got [3]");
  refused("/files/b.csv", "2", R"(files."b.csv": expected text, got 2)");
  refused("/settings/two", "[1]", "settings.two[0]: expected text, got 1");
  refused("/settings/two", "{}", "settings.two: expected a setting, or a list of texts");
  refused("/members", "10", "members: expected a whole number from 1 to 9, got 10");
  refused("/factor", "null", "factor: expected a finite number, got nothing");
  refused("/factor", "-2", "factor: expected a number above zero, got -2");
  refused("/pairs", "[1]", "pairs: expected a list of 2 numbers, got [1]");
}

TEST(Fields, ManyMembersAreReadInTheirOrder) {
  std::string names = R"({"format": "everything-1", "colour": "red", "members": 1, "factor": 1,
                          "pairs": [], "files": {"first": "0")";
  for (int i = 0; i < 100'000; ++i) names += ",\"" + std::to_string(i) + "\":\"\"";
  EXPECT_EQ(read(names + "}}").files.size(), 100'001U) << "none is looked up among all others";
}

TEST(Fields, WritingSetsNothing) {
  const Everything all = filled();
  const Everything before = all;
  to_json_value(all);
  EXPECT_EQ(to_json_value(all), to_json_value(before));
  EXPECT_TRUE(std::isnan(all.unknown) && std::isinf(all.numbers[2])) << "null is of the text alone";
}

TEST(Fields, MembersThatNobodyWouldWriteAreRefused) {
  const auto read = [](const std::string& text) {
    return from_json_exactly<Point>(parse_json(text, "the record"));
  };
  EXPECT_EQ(read(R"({"at": 3})").at, 3);
  EXPECT_THAT([&] { read(R"({"at": 3, "los": 1})"); },
              ThrowsMessage<InvalidArgument>(
                  testing::HasSubstr("the record has no 'los'; it may have at, loss")));
}

}  // namespace
}  // namespace cdt
