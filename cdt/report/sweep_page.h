/// The page of a sweep: a table per architecture, claims and figures, next to published values.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/report/page.h>
#include <cdt/report/text.h>

namespace cdt::report {

/// Mean loss over runs, ours or published: NaN if all runs diverged.
struct MeanLoss {
  double mean = kNotKnown;
  double spread = kNotKnown;  ///< standard deviation over the runs that converged

  void fields(Fields& f) {
    f("val_mse_mean", mean);
    f("val_mse_std", spread);
  }
};

/// Published losses.
struct PublishedLoss {
  MeanLoss loss;  ///< NaN if all its runs diverged
  int64_t converged = 0;

  void fields(Fields& f) {
    loss.fields(f);
    f("converged", converged);
  }
};

/// Error of a target on held-out rows, over runs that converged: RMSE in units of the file, for a
/// class the share of misclassified rows.
struct SweepError {
  std::string target;
  bool is_class = false;
  MeanLoss error;

  void fields(Fields& f);
};

/// "9510 ± 790", "3.21 ± 0.15", "23.4 ± 1.2 %", with `blank` in between.
std::string show(const SweepError& error, const std::string& blank = " ");

/// A table row: the runs of one architecture, rate and method.
struct SweepTableRow {
  std::string architecture;
  std::string shape;  ///< "79-500-1"
  double lr = kNotKnown;
  bool own_rate = false;  ///< whether the method chose the rate
  std::string method;
  std::optional<bool> reachable;  ///< true if in all runs; the count gives the number of runs
  std::optional<int64_t> reachable_runs;
  std::optional<bool> strictly_contracting;  ///< likewise
  std::optional<int64_t> strictly_contracting_runs;
  std::optional<int64_t> converged;
  std::optional<int64_t> runs;
  MeanLoss validation;
  std::vector<SweepError> errors;  ///< if measured
  double train_mean = kNotKnown;
  double seconds = kNotKnown;  ///< per run
  std::optional<PublishedLoss> published;
  double difference = kNotKnown;  ///< from the published mean, in units of its spread

  void fields(Fields& f);
};

/// A statement, and whether these runs support it.
struct Claim {
  std::string text;
  std::optional<bool> held;  ///< empty: undecided by these runs
  std::string evidence;

  void fields(Fields& f) {
    f("claim", text);
    f("held", held);
    f("evidence", evidence);
  }
};

struct Setting {
  std::string name;
  std::string value;
  std::string source;  ///< paper, ours or given
  std::string note;

  void fields(Fields& f) {
    f("name", name);
    f("value", value);
    f("source", source);
    f("note", note);
  }
};

/// A text with its title.
struct TitledText {
  std::string title;
  std::string text;

  void fields(Fields& f) {
    f("title", title);
    f("text", text);
  }
};

struct SweepRecord {
  std::string title = "Sweep";
  std::vector<std::string> summary;  ///< paragraphs
  bool complete = true;              ///< false if interrupted
  bool classes = false;              ///< whether losses are cross entropies instead of squares
  std::vector<SweepTableRow> rows;
  std::vector<Claim> claims;
  std::vector<Figure> figures;
  std::vector<TitledText> preflight;
  std::vector<Setting> settings;
  std::vector<NameValue> data;
  std::vector<NameValue> machine;
  std::vector<NameValue> timings;
  std::string version;  ///< version of the program
  std::string revision;
};

/// @throws InvalidArgument if there are no rows.
Page sweep_page(const SweepRecord& sweep);

}  // namespace cdt::report
