/// From a table in memory to a model that predicts it: what `cdt train` does under the goal
/// predict, without a folder.
#pragma once

#include <cdt/core/error.h>
#include <cdt/run/options.h>
#include <cdt/study/predictor.h>
#include <cdt/study/trained_model.h>

namespace cdt::run {

/// Under the goal predict the values of the target decide what it is where nobody has chosen a
/// loss: text, and numbers of two values, are classes.
/// @return what is to be said of that; "" if nothing is.
std::string decide_loss(Options& options, const data::Table& table);

/// Options that leave the form open get the one of study::usual_plan: batches where one process
/// learns a table on a CPU and a kernel of all rows would take longer, by counted operations.
/// @return what was chosen, in words; "" if nothing was.
std::string decide_form(Options& options, const study::Problem& problem);

/// What the goal predict makes of options that are `resolved`.
study::LearnOptions learn_options(const Options& options, const study::Problem& problem);

struct LearnedTable {
  study::TrainedModel model;  ///< of an interrupted one there is none
  std::vector<study::Expectation> expected;
  std::vector<std::string> notes;  ///< what was chosen on the way, in words
  int64_t members = 0;             ///< trained on all rows; the others are walks
  train::TrainResult result;
};

/// The options say what to learn (without a loss in `given` the target's values, see decide_loss);
/// their goal is predict, said or not, and their file is not looked at. The same rows in another
/// order of the table give the same model, bit by bit.
/// @throws InvalidArgument if an option or the table is wrong.
/// @throws NumericalError if a kernel cannot be computed.
LearnedTable learn(const data::Table& table, const Options& options,
                   const study::LearnHooks& hooks = {});

}  // namespace cdt::run
