/// What a run's page says in words and tables: how it ended, and how well it predicts.
#pragma once

#include <cdt/report/figures/run_values.h>

namespace cdt::report {

/// How the run ended, in a sentence or two.
std::string how_it_ended(const Record& run);

/// "On validation rows the RMS error of price is 23140 (R² 0.93)." Empty if no error is known.
std::string errors_in_words(const Record& run);

/// "On new rows expect price to be off by 23140 ± 900 (RMS; R² 0.93), as 412 rows show that were
/// held out. A linear model: 31000; the mean of the rows: 80100." And a remark if the run has
/// learned nothing that those do not know.
std::string in_words(const study::Expectation& expected);

/// One row per target, baselines beside it; numbers and classes apart.
std::vector<Table> expectation_tables(const std::vector<study::Expectation>& expected);

/// The columns that matter most.
Table importance_table(const std::vector<study::Importance>& columns);

/// One row per target and use of rows; columns are the measures that the run has.
Table errors_table(const Record& run);

Table outcome_table(const Record& run);

/// What the controller promised that took the first step; without rows if none did.
Table controller_table(const control::Certificate& controller);

}  // namespace cdt::report
