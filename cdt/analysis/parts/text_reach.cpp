// What the pre-flight page says of labels and samples: reachability, conflicts, inputs.
#include <cdt/analysis/parts/report_page.h>

#include <map>

namespace cdt::analysis {
namespace {

using control::Known;

/// "samples 3, 17 (lines 40, 8 of houses.csv)"
std::string name_samples(const std::vector<int64_t>& rows, const Origin& origin) {
  std::string text = "samples " + list_rows(rows);
  if (origin.lines.empty()) return text;
  std::vector<int64_t> lines;
  for (const int64_t row : rows) lines.push_back(origin.lines.at(static_cast<size_t>(row)));
  return text + fmt::format(" (lines {} of {})", list_rows(lines), origin.file);
}

void describe_conflict(const Conflict& c, const Origin& origin, Page& page) {
  if (!c.lines.empty()) {
    page.advise("Lines {} of {} are equal in every feature, but {}.", list_rows(c.lines),
                origin.file, c.difference);
    return;
  }
  const std::string samples = name_samples(c.rows, origin);
  switch (c.kind) {
    case Conflict::Kind::kDuplicateEqual:
      page.means("The {} are the same to the network and carry the same label: harmless.", samples);
      break;
    case Conflict::Kind::kDuplicateConflict:
      page.advise(
          "Look at {}: the same input with labels up to {:.3g} apart. At best their mean is "
          "learned.",
          samples, c.label_gap);
      break;
    case Conflict::Kind::kDuplicate:
      page.means(
          "The {} are the same to the network; if their labels differ, at best the mean is "
          "learned.",
          samples);
      break;
    case Conflict::Kind::kFrozen:
      page.advise(
          "The {}: no parameter moves the network's output there. Are all units dead for these "
          "inputs?",
          samples);
      break;
    case Conflict::Kind::kDependent:
      page.advise(
          "The {} depend linearly on each other without being duplicates: a wider network would "
          "tell them apart.",
          samples);
      break;
  }
}

/// Each kind a few times.
void describe_conflicts(const std::vector<Conflict>& conflicts, const Origin& origin, Page& page) {
  constexpr size_t kShown = 6;
  std::map<Conflict::Kind, size_t> count;
  for (const Conflict& conflict : conflicts) {
    if (++count[conflict.kind] <= kShown) describe_conflict(conflict, origin, page);
  }
  for (const auto& [kind, found] : count) {
    if (found <= kShown) continue;
    auto& section = kind == Conflict::Kind::kDuplicateEqual || kind == Conflict::Kind::kDuplicate
                        ? page.meaning
                        : page.advice;
    section.push_back(fmt::format("… and {} more groups of samples like these.", found - kShown));
  }
}

void judge_reach(const Preflight& p, Page& page) {
  const Known& rank = p.reachability.rank;
  const auto n = static_cast<double>(p.n);
  if (p.reachability.reachable) {
    page.verdict("reachability", "YES", "{}",
                 p.products       ? "every label can be fitted"
                 : has_classes(p) ? "every class can be fitted on every row"
                 : p.curvature    ? "every output can be moved to where its loss is least"
                                  : fmt::format("every label can be fitted; λ_min/λ_max = {:.2e}",
                                                p.reachability.margin));
    page.means(
        "A reachable network can fit its training labels exactly, noise included: watch the "
        "validation error.");
  } else {
    page.verdict("reachability", rank.upper < n ? "NO" : "UNDECIDED", "{}",
                 rank.exact() ? fmt::format("{:.0f} of {} directions cannot be moved by any label",
                                            n - rank.upper, p.n)
                              : fmt::format("at least {:.0f} and at most {:.0f} of {} directions",
                                            rank.lower, rank.upper, p.n));
  }
  if (p.curvature || p.products) return;
  const auto& found = p.reach.stabilizability;
  if (!found) {
    page.verdict("stabilizability", "UNKNOWN",
                 "needs the labels and the network's present outputs");
  } else if (!p.reachability.reachable) {
    page.verdict("stabilizability", found->stabilizable ? "YES" : "NO", "{}",
                 found->stabilizable
                     ? "these labels ask for nothing that is out of reach"
                     : fmt::format("an error of norm {:.3g} stays, whatever the training",
                                   found->stuck_error));
  }
}

void describe_inputs(const InputCondition& c, Page& page) {
  if (c.holds) {
    page.verdict("inputs", "DISTINCT",
                 "no two are parallel and all lie in the unit ball: enough for a definite kernel");
    return;
  }
  page.verdict("inputs", "NOT COVERED",
               "largest norm {:.3g} (sample {}), largest |cos| {:.9f} (samples {} and {})",
               c.largest_norm, c.largest_row, c.largest_cosine, c.first_row, c.second_row);
  page.means(
      "The paper's sufficient condition for a definite kernel (inputs in the unit ball, no two "
      "parallel) does not hold; the rank above decides.");
}

}  // namespace

void describe_reach(const Preflight& p, Page& page) {
  judge_reach(p, page);
  if (p.curvature) {
    for (const std::string& warning : p.curvature->warnings) page.advice.push_back(warning);
    if (const int64_t flat = p.curvature->flat; flat > 0) {
      page.means(
          "For {} the loss has no curvature there: descent moves {}, but no faster the farther "
          "off.",
          count_of(flat, "sample"), flat == 1 ? "it" : "them");
    }
  }
  if (p.products) {
    page.means(
        "The kernel is shared by about {:.3g} of {} modes: what else there is to learn is learned "
        "slowly.",
        p.products->effective_rank.value, p.n);
    if (p.products->equal_rows > 0) {
      page.means(
          "{} have the features of an earlier row: what differs in them cannot be told apart.",
          count_of(p.products->equal_rows, "row"));
    }
  }
  describe_conflicts(p.reach.conflicts, p.origin, page);
  if (p.stability.stable && p.reach.size && p.reach.label_norm && *p.reach.label_norm > 0) {
    page.means(
        "The local model can be brought onto the labels in {} steps with label changes of total "
        "size {:.3g}, {:.2g} times the labels' own.",
        p.reach.steps, *p.reach.size, *p.reach.size / *p.reach.label_norm);
  }
  if (p.reach.inputs) describe_inputs(*p.reach.inputs, page);
}

}  // namespace cdt::analysis
