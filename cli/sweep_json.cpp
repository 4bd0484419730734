// results.json, apart from what only the machine knows.
#include <cdt/core/format.h>
#include <cdt/core/version.h>
#include <fmt/format.h>

#include "cli/sweep_results.h"

namespace cdt::cli {
namespace {

using nlohmann::ordered_json;

ordered_json describe_rows(const std::vector<SweepRow>& rows) {
  ordered_json list = ordered_json::array();
  for (const SweepRow& row : rows) {
    const auto all = [&](int64_t count) { return count == static_cast<int64_t>(row.runs.size()); };
    ordered_json published;
    if (row.published != nullptr) {
      published = {{"val_mse_mean", number_or_null(row.published->val_mse_mean)},
                   {"val_mse_std", number_or_null(row.published->val_mse_std)},
                   {"converged", row.published->converged}};
    }
    list.push_back({{"architecture", row.architecture},
                    {"shape", row.runs.empty() ? "" : row.runs.front()->shape},
                    {"lr", number_or_null(row.lr)},
                    {"method", row.method},
                    {"reachable", all(row.reachable)},
                    {"reachable_runs", row.reachable},
                    {"strictly_contracting", all(row.strictly_contracting)},
                    {"strictly_contracting_runs", row.strictly_contracting},
                    {"converged", row.converged},
                    {"runs", row.runs.size()},
                    {"val_mse_mean", number_or_null(row.val_mean)},
                    {"val_mse_std", number_or_null(row.val_std)},
                    {"train_mse_mean", number_or_null(row.train_mean)},
                    {"seconds", row.seconds},
                    {"published", published},
                    {"difference", number_or_null(row.difference())}});
  }
  return list;
}

}  // namespace

ordered_json to_json(const SweepPlan& plan, const std::vector<SweepRow>& rows,
                     const std::vector<Claim>& claims, const std::vector<SweepRun>& runs) {
  ordered_json settings = ordered_json::array();
  for (const Setting& each : plan.settings) {
    if (each.value.empty()) continue;
    settings.push_back(
        {{"name", each.name}, {"value", each.value}, {"source", each.source}, {"note", each.note}});
  }
  ordered_json verdicts = ordered_json::array();
  for (const Claim& claim : claims) {
    verdicts.push_back({{"claim", claim.text},
                        {"held", claim.held ? ordered_json(*claim.held) : ordered_json()},
                        {"evidence", claim.evidence}});
  }
  ordered_json preflight = ordered_json::array();
  for (const Architecture& each : plan.architectures) {
    for (const SweepRun& run : runs) {
      if (!run.what.details || run.what.architecture != each.name) continue;
      preflight.push_back({{"title", fmt::format("architecture {}", each.name)},
                           {"text", fmt::format("Network {}, learning rate {:g}, seed {}\n\n{}",
                                                run.shape, run.lr, run.what.seed, run.preflight)}});
    }
  }
  ordered_json summary = ordered_json::array();
  if (!plan.published_note.empty()) summary.push_back(plan.published_note);
  return {{"format", "cdt-results-1"}, {"version", kVersion},   {"revision", kRevision},
          {"kind", plan.kind},         {"title", plan.title},   {"complete", true},
          {"summary", summary},        {"data", nullptr},       {"settings", settings},
          {"machine", nullptr},        {"timings", nullptr},    {"rows", describe_rows(rows)},
          {"claims", verdicts},        {"preflight", preflight}};
}

}  // namespace cdt::cli
