/// Text and tables of a run's page: how it ended, and how well it predicts.
#pragma once

#include <cdt/report/figures/run_values.h>

namespace cdt::report {

/// How the run ended, in a sentence or two.
std::string how_it_ended(const Record& run);

/// "On validation rows the RMS error of price is 23140 (R² 0.93)." Empty if no error is known.
std::string errors_in_words(const Record& run);

/// "On new rows expect price to be off by 23140 ± 900 (RMS; R² 0.93), as 412 rows show that were
/// held out. A linear model: 31000; the mean of the rows: 80100." And a remark if the run has
/// learned no more than those.
std::string in_words(const study::Expectation& expected);

/// One row per target, compared with baselines; separate tables for numbers and classes.
std::vector<Table> expectation_tables(const std::vector<study::Expectation>& expected);

/// The most important columns.
Table importance_table(const std::vector<study::Importance>& columns);

/// One row per target and use of rows; the columns are the measures of the run.
Table errors_table(const Record& run);

Table outcome_table(const Record& run);

/// Certificate of the controller of the first step; without rows if there was none.
Table controller_table(const control::Certificate& controller);

}  // namespace cdt::report
