#include <cdt/core/error.h>
#include <cdt/loss/loss.h>
#include <fmt/format.h>

#include <cstdlib>

namespace cdt::loss {
namespace {

/// Entry of a loss without argument.
auto plain(LossPtr (*make)()) {
  return [make](std::string_view argument) {
    CDT_REQUIRE(argument.empty(), "the loss ", make()->name(), " takes no number, got ':", argument,
                "'");
    return make();
  };
}

}  // namespace

std::vector<Entry> losses() {
  return {
      {"sse", "half the sum of squares", plain(sse)},
      {"half-mse", "half the mean of squares, the paper's", plain(half_mse)},
      {"mse", "the mean of squares", plain(mse)},
      {"mae", "the mean absolute error: without control only", plain(mae)},
      {"huber", "squares up to δ, a line beyond (huber:1.5); for outliers",
       [](std::string_view delta) { return huber(number_of(delta, 1)); }},
      {"quantile", "a quantile of the targets (quantile:0.9)",
       [](std::string_view q) { return quantile(number_of(q, 0.5)); }},
      {"poisson", "counts: half the mean deviance of e^output", plain(poisson)},
      {"cross-entropy", "the target is a class", plain([] { return cross_entropy(); })},
      {"negative-log", "on probabilities, for analysis", plain(negative_log)},
  };
}

LossPtr find(std::string_view name, const std::vector<Entry>& table) {
  const size_t colon = name.find(':');
  const std::string_view argument = colon < name.size() ? name.substr(colon + 1) : "";
  std::string known;
  for (const Entry& entry : table) {
    if (entry.name == name.substr(0, colon)) return entry.make(argument);
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  throw InvalidArgument(c10::str("loss must be one of ", known, ", got '", name, "'"));
}

LossPtr parse(std::string_view name) { return find(name, losses()); }

std::string with_argument(std::string_view name, double value) {
  return fmt::format("{}:{}", name, value);
}

double number_of(std::string_view argument, double usual) {
  if (argument.empty()) return usual;
  const std::string text(argument);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  CDT_REQUIRE(end == text.c_str() + text.size(),
              "expected a number behind the colon of a loss, got '", argument, "'");
  return value;
}

}  // namespace cdt::loss
