/// What a run will do, and why: the one place that chooses where nobody has.
///
/// decide() looks at what was given and at the data, complete() at rows and network. Both are pure:
/// the same arguments give the same decision, nothing is written and no clock is read.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/study/examine.h>
#include <cdt/study/learn.h>
#include <cdt/study/run_options.h>

namespace cdt::study {

/// A setting, the value that holds, and who chose it.
struct Choice {
  enum class By { kUser, kGoal, kData, kMachine };  ///< of the goal also what its method needs
  std::string setting;
  std::string value;
  By by = By::kUser;
  std::string why;

  void fields(Fields& f);
};
/// "user", "goal", "data" or "machine".
std::string to_string(Choice::By by);

/// What decide() asks of the data.
struct Facts {
  bool pictures = false;               ///< a folder of pictures or an IDX file, not a table
  std::optional<char> delimiter = {};  ///< of a table, as found
  bool classes = false;                ///< the target is text, or numbers of which two differ
  /// What there is to say of a target that is learned as classes, or as a number.
  std::string as_classes = {}, as_number = {};
};
/// By its name and kind alone: a table's target is not looked at.
Facts facts_of(const std::string& file);
Facts facts_of(const data::Table& table, const study::DataOptions& data);

struct Decision {
  RunOptions options;  ///< as run.json names them
  /// Those of `options` as they hold, with what follows from rows: samples a step, the plateau.
  train::TrainOptions training;
  std::optional<study::LearnOptions> learn;  ///< goal predict, once complete
  std::string no_analysis;      ///< why a fit has no pre-flight although nobody has switched it off
  std::vector<Choice> choices;  ///< in the order of the settings
  std::vector<std::string> notes;  ///< what was chosen that people want to hear of
};

/// Goal, architecture, loss, and what follows from the goal.
Decision decide(const RunOptions& given, const Facts& facts);

/// Form, batch, members, when to stop, and whether there is a pre-flight, by rows and network. What
/// decide() has chosen stays, but for patience, which goes with the form.
/// @throws InvalidArgument if what was given does not go with these rows: tune, reshuffle.
Decision complete(Decision decision, const study::Problem& problem);

/// Takes rate, p and stopping step from the forecast, where nobody has chosen them.
void follow(const study::Tuning& advice, Decision& decision);

/// Whether there is a pre-flight.
bool has_analysis(const Decision& decision);

/// A line a choice: setting, value, by whom, why.
std::string to_text(const Decision& decision);
/// The same as JSON, with the names of docs/formats.md.
std::string to_json(const Decision& decision);

/// RunOptions with what is usual for a goal and, under predict, a method: a path and few small
/// weights, or an optimizer's epochs with early stopping.
RunOptions usual_options(study::Goal goal, train::Method method,
                         train::Form form = train::Form::kAuto);

/// What nobody has decided as the goal has it. Under predict `guarded` is the path, its guarded
/// way to predict. Without a goal as of fit.
RunOptions resolved(RunOptions options);

}  // namespace cdt::study
