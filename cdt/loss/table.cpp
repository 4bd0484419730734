#include <cdt/core/error.h>
#include <cdt/loss/loss.h>

namespace cdt::loss {

std::vector<Entry> losses() {
  return {
      {"sse", "half the sum of squares", sse},
      {"half-mse", "half the mean of squares, the paper's", half_mse},
      {"mse", "the mean of squares", mse},
      {"mae", "the mean absolute error: without control only", mae},
      {"cross-entropy", "the target is a class", [] { return cross_entropy(); }},
      {"negative-log", "on probabilities, for analysis", negative_log},
  };
}

LossPtr find(std::string_view name, const std::vector<Entry>& table) {
  std::string known;
  for (const Entry& entry : table) {
    if (entry.name == name) return entry.make();
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  throw InvalidArgument(c10::str("loss must be one of ", known, ", not '", name, "'"));
}

LossPtr parse(std::string_view name) { return find(name, losses()); }

}  // namespace cdt::loss
