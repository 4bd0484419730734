/// From a table in memory to a model that predicts it: what `cdt train` does under the goal
/// predict, without a folder.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/decision.h>
#include <cdt/study/predictor.h>
#include <cdt/study/trained_model.h>

namespace cdt::run {

struct LearnedTable {
  study::TrainedModel model;  ///< of an interrupted one there is none
  std::vector<study::Expectation> expected;
  std::vector<std::string> notes;      ///< what was chosen on the way, in words
  std::vector<study::Choice> choices;  ///< settings that were given, and those that were chosen
  int64_t members = 0;                 ///< trained on all rows; the others are walks
  train::TrainResult result;
};

/// The options say what to learn (without a loss in `given` the target's values, see decision.h);
/// their goal is predict, said or not, and their file is not looked at. The same rows in another
/// order of the table give the same model, bit by bit.
/// @throws InvalidArgument if an option or the table is wrong.
/// @throws NumericalError if a kernel cannot be computed.
LearnedTable learn(const data::Table& table, const Options& options,
                   const study::LearnHooks& hooks = {});

}  // namespace cdt::run
