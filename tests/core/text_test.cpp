// Text from files on its way to a terminal.
#include <cdt/core/text.h>
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
  EXPECT_EQ(printable_name("two\nlines\x1b"), "two\\x0alines\\x1b");
}

}  // namespace
}  // namespace cdt
