// results.json as a page, whole and damaged.
#include <cdt/core/error.h>
#include <cdt/experiment/results_file.h>
#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace cdt::experiment {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using Text = const std::string&;

void expect_refused(const std::function<void()>& action, Text message) {
  try {
    action();
    ADD_FAILURE() << "not refused: " << message;
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr(message));
    EXPECT_LT(std::string(error.what()).size(), 400u) << error.what();
  }
}

report::Page page_of(const ordered_json& results) {
  return report::sweep_page(parse_results(results.dump(), "results.json"));
}

ordered_json a_sweep() {
  return ordered_json::parse(R"({
    "format": "cdt-results-1", "version": "0.1.0", "revision": "abc", "kind": "reproduce", "title": "The paper's tables",
    "complete": true, "summary": ["It came out."], "data": {"file": "homes.csv", "checksum": "12"},
    "settings": [{"name": "steps", "value": "1000", "source": "paper", "note": "said there"}],
    "machine": {"device": "cpu", "jobs": 2}, "timings": {"wall_seconds": 12.5},
    "rows": [{"architecture": "79-250-1", "lr": 0.1, "method": "cdt", "reachable": true, "strictly_contracting": false,
              "converged": 10, "runs": 10, "val_mse_mean": 0.0023, "val_mse_std": 0.0011, "train_mse_mean": 0.001,
              "seconds": 1.2, "published": {"val_mse_mean": 0.00188, "val_mse_std": 0.00027}, "difference": 1.7},
             {"architecture": "79-250-1", "lr": 1, "method": "gd", "reachable": true, "strictly_contracting": false,
              "converged": 0, "runs": 10, "val_mse_mean": null, "val_mse_std": null, "train_mse_mean": null,
              "seconds": 1.2, "published": null, "difference": null}],
    "claims": [{"claim": "lower", "held": true, "evidence": "2 of 2"}, {"claim": "faster", "held": false, "evidence": ""},
               {"claim": "better", "held": null, "evidence": "too few"}],
    "preflight": [{"title": "Architecture 1", "text": "OSCILLATING <1>"}]})");
}

TEST(SweepPages, ASweepBecomesAPage) {
  const std::string html = report::to_html(page_of(a_sweep()));
  for (const char* text :
       {"The paper&#39;s tables", "Validation MSE,\u00a010⁻³", "2.30\u00a0±\u00a01.10",
        "1.88\u00a0±\u00a00.27", "+1.7", "diverged", "10\u00a0of\u00a010", ">held<", ">not held<",
        ">cannot be said<", "OSCILLATING &lt;1&gt;", "said there", "wall seconds", "12.5"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  ordered_json interrupted = a_sweep();
  interrupted["complete"] = false;
  EXPECT_THAT(page_of(interrupted).summary[0], HasSubstr("interrupted"));
}

TEST(SweepPages, SaysWhatIsWrongWithASweep) {
  const auto refused = [&](const std::function<void(ordered_json&)>& damage, Text message) {
    ordered_json results = a_sweep();
    damage(results);
    expect_refused([&] { parse_results(results.dump(), "dir/results.json"); }, message);
    expect_refused([&] { parse_results(results.dump(), "dir/results.json"); },
                   "dir/results.json: ");
  };
  refused([](ordered_json& r) { r["format"] = "cdt-results-7"; },
          "expected the format \"cdt-results-1\", got \"cdt-results-7\" of cdt 0.1.0");
  refused([](ordered_json& r) { r.erase("format"); }, "a file without a format");
  refused([](ordered_json& r) { r = ordered_json::array(); }, "a file without a format");
  refused([](ordered_json& r) { r["rows"] = ordered_json::array(); }, "its list of rows is empty");
  refused([](ordered_json& r) { r.erase("rows"); }, "its list of rows is empty");
  refused([](ordered_json& r) { r["rows"] = "many"; }, "rows: expected a list, got \"many\"");
  refused([](ordered_json& r) { r["rows"][0] = 3; }, "rows[0]: expected an object, got 3");
  refused([](ordered_json& r) { r["summary"] = {1}; }, "summary[0]: expected text, got 1");
  refused([](ordered_json& r) { r["rows"][0]["lr"] = "fast"; },
          "rows[0].lr: expected a finite number, got \"fast\"");
  refused([](ordered_json& r) { r["rows"][0]["runs"] = -1; }, "rows[0].runs: expected a whole");
  refused([](ordered_json& r) { r["complete"] = "yes"; }, "complete: expected true or false");
  refused([](ordered_json& r) { r["machine"] = 1; }, "machine: expected an object");
  expect_refused([] { parse_results(std::string(100'000, '['), "results.json"); }, "nests deeper");
}

TEST(SweepPages, SaysWhatIsNoJson) {
  expect_refused([] { parse_results("{]", "dir/results.json"); }, "dir/results.json: is not JSON");
  expect_refused([] { read_results("nowhere"); }, "nowhere/results.json");
}

}  // namespace
}  // namespace cdt::experiment
