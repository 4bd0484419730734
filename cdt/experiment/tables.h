/// The table of a sweep as text, CSV and Markdown.
#pragma once

#include <cdt/experiment/summary.h>

namespace cdt::experiment {

/// `for_spreadsheets` as in data::csv_field.
std::string to_csv(const std::vector<Row>& rows, bool for_spreadsheets = false);
/// Names are escaped: they cannot contain markup, links, HTML or line breaks.
std::string to_markdown(const std::string& title, const std::vector<Row>& rows,
                        const std::vector<report::Claim>& claims);
/// One sentence per target: the method with the lowest error, among those of which no run diverged;
/// none if errors were not measured.
std::vector<std::string> lowest_errors(const std::vector<Row>& rows);
/// The table and the claims, for a terminal.
std::string to_text(const std::string& title, const std::vector<Row>& rows,
                    const std::vector<report::Claim>& claims);

}  // namespace cdt::experiment
