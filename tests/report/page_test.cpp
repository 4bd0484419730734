// The page and its figures: what is in the file, and that text from data stays text.
#include <cdt/core/error.h>
#include <cdt/report/assets/pack.h>
#include <cdt/report/page.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace cdt::report {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

/// The reverse of pack, written from its description and not from page.js.
std::vector<double> unpack(const ordered_json& packed) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const int digits = packed[0];
  const int lowest = packed[1];
  const std::string text = packed[2];
  std::vector<double> values;
  int64_t rank = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '-') {
      values.push_back(NAN);
      ++i;
      continue;
    }
    int64_t code = 0;
    for (int64_t unit = 1, more = 1; more; unit *= 32) {
      const auto place = static_cast<int64_t>(letters.find(text[i++]));
      code += place % 32 * unit;
      more = place / 32;
    }
    rank += code % 2 ? -(code / 2) : code / 2;
    if (digits == 0 || rank == 0) {
      values.push_back(static_cast<double>(rank));
      continue;
    }
    const auto first = static_cast<int64_t>(std::llround(std::pow(10, digits - 1)));
    const int64_t place = std::abs(rank) - 1;
    const std::string decimal = std::to_string(first + place % (9 * first)) + "e" +
                                std::to_string(lowest + place / (9 * first));
    values.push_back((rank < 0 ? -1 : 1) * std::strtod(decimal.c_str(), nullptr));
  }
  return values;
}

TEST(Pack, RoundsToDigitsWhateverTheSize) {
  const std::vector<double> values{0,         1,    -1,     0.999999999, 9.999995e-7, 1e-300,
                                   -3.25e200, M_PI, -1e-12, 123456.789,  0.1,         1e22,
                                   5e-324,    0};
  for (const int digits : {4, 5, 6}) {
    const auto back = unpack(pack(values, digits));
    ASSERT_EQ(back.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(back[i], values[i], std::abs(values[i]) * 0.51 * std::pow(10, 1 - digits))
          << values[i];
    }
  }
}

TEST(Pack, WholeNumbersAreExactAndGapsStay) {
  const std::vector<double> steps{0, 1, 2, 1234567, -7, NAN, INFINITY, 3};
  const auto back = unpack(pack(steps, 4));
  ASSERT_EQ(back.size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (std::isfinite(steps[i])) {
      EXPECT_EQ(back[i], steps[i]);
    } else {
      EXPECT_TRUE(std::isnan(back[i]));
    }
  }
  EXPECT_TRUE(unpack(pack({}, 6)).empty());
}

Figure a_figure(const std::string& id) {
  Figure figure{id, "Loss", "A caption.", {"step", false}, {"loss", true}, {"right", false}, {}};
  figure.series.push_back({"one", {0, 1, 2}, {1, NAN, 0.25}, {0.5, 0.4, 0.1}, {2, 2, 2}});
  figure.series.push_back({"two", {0, 1, 2}, {3, 2, 1}, {}, {}, Series::Style::kBars, true});
  return figure;
}

Page page_with(std::vector<Figure> figures) {
  Page page{"A title", {"A summary."}, {}};
  page.sections.push_back({"Figures", {}, {}, std::move(figures), "", false});
  return page;
}

ordered_json data_of(const std::string& html) {
  const std::string mark = "id=\"figures\">";
  const size_t from = html.find(mark) + mark.size();
  return ordered_json::parse(html.substr(from, html.find("</script>", from) - from));
}

TEST(Page, HoldsEverythingAndLoadsNothing) {
  const std::string html = to_html(page_with({a_figure("loss")}));
  EXPECT_THAT(html, HasSubstr("<h1>A title</h1>"));
  EXPECT_THAT(html, HasSubstr("Chart.js v3"));
  EXPECT_THAT(html, HasSubstr("Released under the MIT License"));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  for (const char* outside : {"src=\"http", "href=\"http", "@import", "url(", "<iframe"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  const ordered_json data = data_of(html);
  ASSERT_EQ(data.size(), 1u);
  EXPECT_EQ(data[0]["lists"].size(), 1u) << "x values that are shared stand there once";
  EXPECT_EQ(unpack(data[0]["series"][1]["y"]), (std::vector<double>{3, 2, 1}));
  EXPECT_EQ(data[0]["series"][1]["right"], true);
  EXPECT_EQ(html, to_html(page_with({a_figure("loss")}))) << "the same results, the same bytes";
}

TEST(Page, TextFromDataStaysText) {
  const std::string evil = "</script><script>alert(1)</script><b onclick='x' id=\"y\">&";
  Figure figure = a_figure("loss");
  figure.title = figure.caption = figure.x.label = figure.series[0].name = evil;
  Page page = page_with({figure});
  page.title = evil;
  page.summary = {evil};
  page.sections[0].title = evil;
  page.sections[0].preformatted = evil;
  page.sections[0].paragraphs = {evil};
  page.sections[0].tables = {{evil, {evil}, {{evil}}, evil}};
  const std::string html = to_html(page);
  EXPECT_THAT(html, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(html, Not(HasSubstr("<b onclick")));
  EXPECT_EQ(data_of(html)[0]["series"][0]["name"], evil);
}

TEST(Page, NothingThatIsHiddenStaysHidden) {
  const std::string evil = "gpj\u202eexe\u2066\u200b";
  Figure figure = a_figure("loss");
  figure.title = figure.caption = figure.x.label = figure.y.label = figure.series[0].name = evil;
  Page page = page_with({figure});
  page.title = evil;
  page.summary = {evil};
  page.sections[0].title = page.sections[0].preformatted = evil;
  page.sections[0].paragraphs = {evil};
  page.sections[0].tables = {{evil, {evil}, {{evil}}, evil}};
  const std::string html = to_html(page);
  for (const char* hidden : {"\u202e", "\u2066", "\u200b"}) {
    EXPECT_THAT(html, Not(HasSubstr(hidden)));
  }
  EXPECT_EQ(data_of(html)[0]["series"][0]["name"], "gpj\\u202eexe\\u2066\\u200b");
}

TEST(Page, BytesThatAreNoTextDoNotBreakIt) {
  Figure figure = a_figure("loss");
  figure.series[0].name = "caf\xe9";
  EXPECT_NO_THROW(data_of(to_html(page_with({figure}))));
}

TEST(Page, RefusesFiguresThatMakeNoSense) {
  const auto refused = [](std::vector<Figure> figures, const std::string& message) {
    try {
      to_html(page_with(std::move(figures)));
      ADD_FAILURE() << message;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  refused({a_figure("a"), a_figure("a")}, "two figures share the id 'a'");
  refused({a_figure("a/../b")}, "letters, digits and hyphens");
  refused({a_figure("")}, "letters, digits and hyphens");
  Figure uneven = a_figure("a");
  uneven.series[1].y.pop_back();
  refused({uneven}, "has 3 x and 2 y");
  uneven = a_figure("a");
  uneven.series[0].high.clear();
  refused({uneven}, "a band needs 3");
}

TEST(Page, NoFiguresAreFine) { EXPECT_THAT(to_html({"Empty", {}, {}}), HasSubstr("<h1>Empty")); }

TEST(Page, ASweepAsLargeAsThePapersStaysSmall) {
  std::vector<Figure> figures;
  uint64_t state = 1;
  const auto noise = [&] {  // in (−½, ½)
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 11) / 9007199254740992.0 - 0.5;
  };
  for (int f = 0; f < 15; ++f) {
    Figure figure = a_figure("figure-" + std::to_string(f));
    figure.series.clear();
    for (int s = 0; s < 12; ++s) {
      Series series{"series", {}, {}, {}, {}};
      for (int k = 0; k < 1000; ++k) {
        const double y = 0.03 * std::exp(-0.002 * k * (1 + s)) + 0.002 * (1 + 0.01 * noise());
        series.x.push_back(k);
        series.y.push_back(y);
        series.low.push_back(y * (0.8 + 0.01 * noise()));
        series.high.push_back(y * (1.2 + 0.01 * noise()));
      }
      figure.series.push_back(std::move(series));
    }
    figures.push_back(std::move(figure));
  }
  const Page page = page_with(std::move(figures));
  EXPECT_LT(to_html(page).size(), 2'000'000u);
}

TEST(FiguresJson, ComeBackAsTheyWere) {
  const std::vector<Figure> figures{a_figure("a"), a_figure("b")};
  const auto back = parse_figures(to_json(figures), "figures.json");
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(to_json(back), to_json(figures));
  EXPECT_EQ(back[1].id, "b");
  EXPECT_TRUE(back[0].y.logarithmic);
  EXPECT_EQ(back[0].series[1].style, Series::Style::kBars);
  EXPECT_TRUE(back[0].series[1].second_axis);
  EXPECT_TRUE(std::isnan(back[0].series[0].y[1]));
}

TEST(FiguresJson, SaysWhatIsWrong) {
  const auto refused = [](const std::string& json, const std::string& message) {
    try {
      parse_figures(json, "dir/figures.json");
      ADD_FAILURE() << json;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("dir/figures.json: "));
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  refused("[", "is not JSON");
  refused("[]", "expected the format \"cdt-figures-1\"");
  refused(R"({"format": "cdt-figures-2"})", "got \"cdt-figures-2\"");
  refused(R"({"format": "cdt-figures-1"})", "figures");
  refused(R"({"format": "cdt-figures-1", "figures": [{"id": "a"}]})",
          "figures[0].title: expected text, got nothing");
  refused(R"({"format": "cdt-figures-1", "figures": [{"id": "a", "title": "t", "series":
              [{"name": "s", "x": ["one"], "y": [1]}]}]})",
          "figures[0].series[0].x[0]: expected a finite number, got \"one\"");
  refused(R"({"format": "cdt-figures-1", "figures": [{"id": "a", "title": "t", "series":
              [{"name": "s", "x": [1, 2], "y": [1]}]}]})",
          "figures[0].series[0].y: expected a list of 2 numbers, got [1]");
  refused(R"({"format": "cdt-figures-1", "figures": [{"id": "a", "title": "t", "series":
              [{"name": "s", "x": [1], "y": [1], "low": [1]}]}]})",
          "figures[0].series[0].high: expected a list of 1 numbers, got nothing");
  refused(R"({"format": "cdt-figures-1", "figures": )" + std::string(100'000, '['), "nests deeper");
  refused(R"({"format": "cdt-figures-1", "figures": [{"id": "a", "title": "t", "series":
              [{"name": "s", "x": [], "y": [], "style": "pie"}]}]})",
          "pie");
}

}  // namespace
}  // namespace cdt::report
