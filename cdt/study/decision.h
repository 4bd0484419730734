/// Chooses all settings of a run that the user has not chosen, with reasons.
///
/// decide() uses the given options and the data, complete() also rows and network. Both are pure:
/// the same arguments give the same decision; they write nothing and read no clock.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/study/examine.h>
#include <cdt/study/learn.h>
#include <cdt/study/run_options.h>

namespace cdt::study {

/// A setting, its value, and who chose it.
struct Choice {
  enum class By { kUser, kGoal, kData, kMachine };  ///< kGoal includes requirements of its method
  std::string setting;
  std::string value;
  By by = By::kUser;
  std::string why;

  void fields(Fields& f);
};
/// "user", "goal", "data" or "machine".
std::string to_string(Choice::By by);

/// Facts about the data that decide() needs.
struct Facts {
  bool pictures = false;               ///< a folder of pictures or an IDX file, not a table
  std::optional<char> delimiter = {};  ///< delimiter of a table, as detected
  bool classes = false;                ///< whether the target is text, or has two distinct numbers
  /// Notes on a target that is learned as classes, or as a number.
  std::string as_classes = {}, as_number = {};
};
/// From the file's name and type only, without looking at a table's target.
Facts facts_of(const std::string& file);
Facts facts_of(const data::Table& table, const study::DataOptions& data);

struct Decision {
  RunOptions options;  ///< as named in run.json
  /// `options.training` with what follows from the rows: samples per step, the plateau.
  train::TrainOptions training;
  std::optional<study::LearnOptions> learn;  ///< goal predict only, set by complete()
  std::string no_analysis;      ///< why a fit has no pre-flight although the user has not disabled
                                ///< it
  std::vector<Choice> choices;  ///< in the order of the settings
  std::vector<std::string> notes;  ///< choices worth telling the user
};

/// Chooses goal, architecture and loss, and what follows from the goal.
Decision decide(const RunOptions& given, const Facts& facts);

/// Chooses solver, batch, members, stopping, and whether to run the pre-flight, from rows and
/// network. Keeps what decide() has chosen, except the patience, which depends on the solver.
/// @throws InvalidArgument if an option does not fit these rows: tune, reshuffle.
Decision complete(Decision decision, const study::Problem& problem);

/// Takes rate, p and stopping step from the forecast, unless the user has chosen them.
void follow(const study::Tuning& advice, Decision& decision);

/// Whether the run includes a pre-flight.
bool has_analysis(const Decision& decision);

/// One line per choice: setting, value, who chose it, why.
std::string to_text(const Decision& decision);
/// The same as JSON, with the names of docs/formats.md.
std::string to_json(const Decision& decision);

/// RunOptions with the defaults of a goal and, for predict, of a method: a path with few small
/// weights, or an optimizer's epochs with early stopping.
RunOptions usual_options(study::Goal goal, const train::Method& method,
                         const train::Form& form = "auto");

/// Sets undecided options to the defaults of the goal; fit if there is none. With predict,
/// `guarded` means the path, its guarded method for prediction.
RunOptions resolved(RunOptions options);

}  // namespace cdt::study
