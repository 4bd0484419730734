// What the program says to people who look for something: tour, help, suggestions, completion.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "support/program.h"

namespace cdt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Help : public test::Program {
 protected:
  static std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  /// Names of options that begin a line, with their dashes.
  static std::vector<std::string> options_of(const std::string& text) {
    std::vector<std::string> names;
    for (const std::string& line : lines_of(text)) {
      if (line.starts_with("  --")) names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
    return names;
  }
  static size_t columns_of(const std::string& line) {
    return static_cast<size_t>(std::ranges::count_if(
        line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  }
  /// What bash offers behind these words, the last of which may be begun only.
  std::vector<std::string> completed(const std::string& words) const {
    const Result result = shell(
        "bash --norc -c 'source cdt.bash; COMP_WORDS=(" + words +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cdt; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
    EXPECT_EQ(result.err, "");
    return lines_of(result.out);
  }
};

TEST_F(Help, TourOfFiveLinesWithoutACommand) {
  const Result result = cdt("");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(lines_of(result.err).size(), 6U);  // and one that says what was expected
  EXPECT_THAT(result.err, AllOf(HasSubstr("cdt data make"), HasSubstr("cdt train"),
                                HasSubstr("cdt predict"), HasSubstr("cdt analyze")));
}

TEST_F(Help, ShowsWhatMattersInGroupsAndTheRestOnRequest) {
  for (const char* command : {"train", "compare", "analyze"}) {
    SCOPED_TRACE(command);
    const Result brief = cdt(std::string(command) + " --help");
    const Result all = cdt(std::string(command) + " --help-all");
    EXPECT_EQ(brief.code, 0);
    EXPECT_EQ(all.code, 0);
    const auto shown = options_of(brief.out), every = options_of(all.out);
    EXPECT_GE(shown.size(), 8U);
    EXPECT_LE(shown.size(), 16U);
    EXPECT_GT(every.size(), 2 * shown.size());
    for (const std::string& name : shown) EXPECT_EQ(std::ranges::count(every, name), 1) << name;
    for (const char* group : {"Data", "Model", "Training", "Control", "Output", "Machine"}) {
      const size_t at = brief.out.find("\n" + std::string(group) + "\n");
      ASSERT_NE(at, std::string::npos) << group;
      EXPECT_NE(brief.out.substr(at, brief.out.find("\n\n", at + 1) - at).find("Example: cdt "),
                std::string::npos)
          << group;
    }
    for (const Result* each : {&brief, &all}) {
      for (const std::string& line : lines_of(each->out)) EXPECT_LE(columns_of(line), 80U) << line;
    }
  }
}

TEST_F(Help, ExamplesNameOptionsThatThereAre) {
  for (const char* command : {"train", "compare", "analyze", "predict", "design"}) {
    const auto every = options_of(cdt(std::string(command) + " --help-all").out);
    for (const std::string& line : lines_of(cdt(std::string(command) + " --help").out)) {
      const size_t at = line.find("cdt " + std::string(command));
      if (at == std::string::npos || line.find("--help") != std::string::npos) continue;
      std::istringstream words(line.substr(at));
      for (std::string word; words >> word;) {
        if (word.starts_with("--")) EXPECT_THAT(every, testing::Contains(word)) << line;
      }
    }
  }
}

TEST_F(Help, SaysWhatWasMeant) {
  ASSERT_EQ(cdt("data make h.csv --rows 40").code, 0);
  const std::string train = "train h.csv --target price --out no ";
  for (const auto& [wrong, right] :
       std::vector<std::pair<std::string, std::string>>{{"--learning-rate 0.1", "--lr"},
                                                        {"--learning_rate=0.1", "--lr"},
                                                        {"--epochs 3", "--steps"},
                                                        {"--optimizer adam", "--method"},
                                                        {"--batch-size 8", "--batch"},
                                                        {"--random-state 3", "--seed"},
                                                        {"--gpu", "--device cuda"},
                                                        {"--hiden 8", "--hidden"},
                                                        {"--Seed 3", "--seed"}}) {
    expect_wrong_usage(train + wrong, "; did you mean " + right);
  }
  expect_wrong_usage(train + "--goal fit --method sgd", "did you mean gd or momentum?");
  expect_wrong_usage(train + "--method guardd", "did you mean guarded?");
  expect_wrong_usage(train + "--loss crossentropy", "did you mean cross-entropy?");
  expect_wrong_usage(train + "--loss huger:2", "did you mean huber?");
  expect_wrong_usage(train + "--arch resnet", "did you mean resnet18?");
  expect_wrong_usage("train h.csv --target Price --out no", "did you mean \"price\"?");
  expect_wrong_usage("compare h.csv --target price --lr 1", "did you mean --lrs?");
  expect_wrong_usage("compare h.csv --target price --methods sgd", "did you mean gd or momentum?");
  expect_wrong_usage("trian h.csv", "there is no command 'trian'; did you mean cdt train?");
  expect_wrong_usage("fit h.csv", "did you mean cdt train?");
  expect_wrong_usage("data mak h.csv",
                     "there is no command 'data mak'; did you mean cdt data make?");
  // Nothing is near: nothing is suggested.
  const Result far = cdt(train + "--xyzzyplugh 1");
  EXPECT_EQ(far.code, 2);
  EXPECT_THAT(far.err, Not(HasSubstr("did you mean")));
  EXPECT_FALSE(exists("no"));
}

TEST_F(Help, CompletesInBash) {
  ASSERT_EQ(cdt("completion bash", "cdt.bash").code, 0);
  ASSERT_EQ(shell("bash -n cdt.bash").code, 0);
  EXPECT_EQ(completed("cdt tr"), std::vector<std::string>{"train"});
  EXPECT_EQ(completed("cdt train --me"), (std::vector<std::string>{"--method", "--memory"}));
  EXPECT_EQ(completed("cdt train h.csv --method gu"), std::vector<std::string>{"guarded"});
  EXPECT_EQ(completed("cdt train h.csv --method = gu"), std::vector<std::string>{"guarded"});
  EXPECT_EQ(completed("cdt data desc"), std::vector<std::string>{"describe"});
  EXPECT_EQ(completed("cdt data make-pictures --si"), std::vector<std::string>{"--size"});
  EXPECT_EQ(completed("cdt --ver"), std::vector<std::string>{"--version"});
  EXPECT_EQ(completed("cdt train hou"), std::vector<std::string>{""});  // names of files, by bash
}

TEST_F(Help, CompletionsAreWellFormedWhereTheShellIsThere) {
  for (const std::string shell_name : {"zsh", "fish"}) {
    ASSERT_EQ(cdt("completion " + shell_name, "script").code, 0);
    EXPECT_THAT(slurp("script"), AllOf(HasSubstr("train"), HasSubstr("method")));
    if (shell("command -v " + shell_name).code != 0) continue;
    const Result result = shell(shell_name + " -n script");
    EXPECT_EQ(result.code, 0) << result.err;
  }
  expect_wrong_usage("completion tcsh", "expected bash, zsh, fish, got 'tcsh'");
}

}  // namespace
}  // namespace cdt
