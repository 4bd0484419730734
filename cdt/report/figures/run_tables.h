/// What a run's page says in words and tables: how it ended, and how well it predicts.
#pragma once

#include <cdt/report/run_page.h>

namespace cdt::report {

/// How the run ended, in a sentence or two.
std::string how_it_ended(const RunRecord& run);

/// "On validation rows the RMS error of price is 23140 (R² 0.93)." Empty if no error is known.
std::string errors_in_words(const RunRecord& run);

/// "On new rows expect price to be off by 23140 ± 900 (RMS; R² 0.93), as 412 rows show that were
/// held out. A linear model: 31000; the mean of the rows: 80100." And a remark if the run has
/// learned nothing that those do not know.
std::string in_words(const TargetExpectation& expected);

/// One row per target, baselines beside it; numbers and classes apart.
std::vector<Table> expectation_tables(const std::vector<TargetExpectation>& expected);

/// The columns that matter most.
Table importance_table(const std::vector<ColumnImportance>& columns);

/// One row per target and use of rows; columns are the measures that the run has.
Table errors_table(const RunRecord& run);

Table outcome_table(const RunRecord& run);

}  // namespace cdt::report
