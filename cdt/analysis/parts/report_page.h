/// The parts of the pre-flight page while it is being written; for the sources of reports alone.
#pragma once

#include <cdt/analysis/preflight.h>
#include <cdt/core/text/format.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cdt::analysis {

/// Verdicts, meaning and advice; then other rates, then the numbers. Texts are formats of fmt.
struct Page {
  std::string verdicts;
  std::vector<std::string> meaning;
  std::vector<std::string> advice;
  std::string rates;
  std::string numbers;

  template <class... Values>
  void verdict(std::string_view subject, std::string_view word,
               fmt::format_string<Values...> detail, Values&&... values) {
    verdicts += verdict_line(subject, word, fmt::format(detail, std::forward<Values>(values)...));
  }
  template <class... Values>
  void means(fmt::format_string<Values...> text, Values&&... values) {
    meaning.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  template <class... Values>
  void advise(fmt::format_string<Values...> text, Values&&... values) {
    advice.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  template <class... Values>
  void number(fmt::format_string<Values...> text, Values&&... values) {
    numbers += fmt::format(text, std::forward<Values>(values)...);
  }
};

/// What labels can do, and for which samples they cannot (text_reach.cpp).
void describe_reach(const Preflight& preflight, Page& page);
/// The outputs before training, and what training will bring (text_outlook.cpp).
void describe_outlook(const Preflight& preflight, Page& page);

inline bool has_classes(const Preflight& p) { return p.curvature && p.curvature->smoothing; }

}  // namespace cdt::analysis
