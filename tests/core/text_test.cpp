// Text from files on its way to a terminal.
#include <cdt/core/text/nearest.h>
#include <cdt/core/text/text.h>
#include <gtest/gtest.h>

#include <vector>

namespace cdt {
namespace {

TEST(Utf8, AcceptsCharactersAndRefusesBytes) {
  for (const std::string good :
       {"", "a", "ä", "€", "😀", "\x7f", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const std::string bad : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                                "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "a\xff", "\xe2\x82"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(Printable, NothingSteersATerminal) {
  EXPECT_EQ(printable("plain, ä € 😀\nnext\n"), "plain, ä € 😀\nnext\n");
  EXPECT_EQ(printable("\x1b[31mred\a\r\t\x7f"), "\\x1b[31mred\\x07\\x0d\\x09\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  // C1 controls: as UTF-8, and as the byte that old terminals know.
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\x9b"
            "31m");
  EXPECT_EQ(printable("\x9b"
                      "31m\xc2"),
            "\\x9b"
            "31m\\xc2");
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0") << "a blank";
  const std::vector<char> half{'\xc2'};  // the sanitizer sees who looks behind it
  EXPECT_EQ(printable({half.data(), half.size()}), "\\xc2");
  // What turns the writing, joins, separates or hides.
  EXPECT_EQ(printable("ab\u202edc\u202c"), "ab\\u202edc\\u202c");
  for (const char* hidden : {"\u00ad", "\u034f", "\u061c", "\u115f", "\u180e", "\u200b", "\u200d",
                             "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202d", "\u2060",
                             "\u2066", "\u2069", "\u206f", "\u3164", "\ufeff", "\ufff9"}) {
    EXPECT_EQ(printable(hidden).size(), 6U) << printable(hidden);
    EXPECT_EQ(printable(hidden).substr(0, 2), "\\u");
    EXPECT_EQ(without_hidden(std::string("a") + hidden + "b"), "a" + printable(hidden) + "b");
  }
  EXPECT_EQ(printable("\U000e0041"), "\\udb40\\udc41") << "a tag";
  EXPECT_EQ(printable("שלום العربية 한국어"), "שלום العربية 한국어") << "letters stay";
  EXPECT_EQ(without_hidden("\x1b \xff \u202e"), "\x1b \xff \\u202e");
  EXPECT_EQ(printable_name("two\nlines\x1b"), "two\\x0alines\\x1b");
}

/// By its definition: the least of all ways to the ends of both words.
size_t distance_by_recursion(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const auto ends = [](std::string_view text, size_t cut) {
    return text.substr(0, text.size() - cut);
  };
  size_t least =
      std::min({distance_by_recursion(ends(a, 1), b) + 1, distance_by_recursion(a, ends(b, 1)) + 1,
                distance_by_recursion(ends(a, 1), ends(b, 1)) + (a.back() == b.back() ? 0 : 1)});
  if (a.size() > 1 && b.size() > 1 && a.back() == b[b.size() - 2] && b.back() == a[a.size() - 2]) {
    least = std::min(least, distance_by_recursion(ends(a, 2), ends(b, 2)) + 1);
  }
  return least;
}

TEST(Nearest, DistancesAreThoseOfTheirDefinition) {
  const std::vector<std::string> words{"",      "a",     "ab", "ba",  "train", "trian",
                                       "tarin", "brain", "gd", "sgd", "adam",  "madam"};
  for (const std::string& a : words) {
    for (const std::string& b : words)
      EXPECT_EQ(edit_distance(a, b), distance_by_recursion(a, b)) << a << " " << b;
  }
}

TEST(Nearest, NamesWithinAThirdOfTheLetters) {
  const std::vector<std::string> known{"p", "lr", "train", "target", "test-fraction", "price"};
  EXPECT_EQ(nearest_name(known, "trian"), "train");
  EXPECT_EQ(nearest_name(known, "Price"), "price");
  EXPECT_EQ(nearest_name(known, "test-fractoin"), "test-fraction");
  EXPECT_EQ(nearest_name(known, "x"), "") << "not the nearest of one letter";
  EXPECT_EQ(nearest_name(known, "garget"), "target");
  EXPECT_EQ(nearest_name(known, "forget"), "target");
  EXPECT_EQ(nearest_name(known, "budget"), "");
  EXPECT_EQ(nearest_name({}, "a"), "");
}

}  // namespace
}  // namespace cdt
