/// A plan of a few runs that take a moment, and made-up runs of it.
#pragma once

#include <cdt/experiment/store.h>

#include <cmath>

namespace cdt::experiment::test {

inline Plan sample_plan() {
  Plan plan;
  plan.kind = "compare";
  plan.title = "A few runs";
  plan.data.file = "houses.csv";
  plan.data.targets = {"price"};
  plan.architectures = {{"small", {6}}, {"large", {12, 12}}};
  plan.lrs = {1, 0.1};
  plan.methods = {"gd", "cdt", kGdBest};
  plan.steps = 6;
  plan.seeds = 2;
  plan.validate_every = 2;
  plan.samples = {"small", 0.1};
  plan.settings = {{"target", "price", "given", ""}, {"lrs", "1, 0.1", "given", ""}};
  return plan;
}

/// As if `what` had ended at `loss`, NaN: diverged. Its curve falls from 4·loss.
inline CaseRun made_up(const Case& what, double loss) {
  CaseRun run;
  run.what = what;
  run.shape = "3-6-1";
  run.outcome = std::isnan(loss) ? "diverged" : "steps";
  run.steps = what.steps;
  run.lr = what.lr > 0 ? what.lr : 0.5;
  run.train_loss = loss / 2;
  run.val_loss = loss;
  run.seconds = 0.25;
  run.operations = 1e9;
  run.reachable = true;
  run.strictly_contracting = what.lr < 1;
  run.step = {0, 1, 2};
  run.train = {4 * loss, loss, loss / 2};
  run.val = {4 * loss, std::nan(""), loss};
  run.refreshed = {1, 0, 0};
  run.rejections = {0, 2, 0};
  run.final_error = {loss, -2 * loss};
  run.row_norm = {1, 2};
  return run;
}

}  // namespace cdt::experiment::test
