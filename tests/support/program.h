/// Runs the program cdt in its own folder, as a user does.
#pragma once

#include <cdt/core/npy.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temp_folder.h"

namespace cdt::test {

/// File names are relative to the folder.
class Program : public testing::Test {
 protected:
  struct Result {
    int code;
    std::string out;
    std::string err;
  };

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  void save(const std::string& name, const torch::Tensor& tensor) const {
    save_npy(folder_ / name, tensor);
  }
  std::string slurp(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  nlohmann::json parse(const std::string& name) const { return nlohmann::json::parse(slurp(name)); }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  /// Runs a shell command there; `to` receives its standard output.
  Result shell(const std::string& command, const std::string& to = "out.txt") const {
    const std::string whole =
        "cd " + folder_.path().string() + " && (" + command + ") >" + to + " 2>err.txt";
    const int status = std::system(whole.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp("out.txt"), slurp("err.txt")};
  }
  Result cdt(const std::string& arguments, const std::string& to = "out.txt") const {
    return shell(CDT_PROGRAM " " + arguments, to);
  }

  /// Expects exit code 2, no standard output, and a message.
  void expect_wrong_usage(const std::string& arguments, const std::string& message) const {
    SCOPED_TRACE(arguments);
    const Result result = cdt(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, testing::HasSubstr(message));
    EXPECT_EQ(result.out, "");
  }

  TempFolder folder_;
};

}  // namespace cdt::test
