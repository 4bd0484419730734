/// The table of a sweep as text, CSV and Markdown.
#pragma once

#include <cdt/experiment/summary.h>

namespace cdt::experiment {

/// `for_spreadsheets`: as data::csv_field has it.
std::string to_csv(const std::vector<Row>& rows, bool for_spreadsheets = false);
/// Names are text there, whatever they hold: neither marks nor links, HTML or lines of their own.
std::string to_markdown(const std::string& title, const std::vector<Row>& rows,
                        const std::vector<report::Claim>& claims);
/// A sentence a target: which method was least wrong about it, of those of which no run diverged;
/// none where errors were not measured.
std::vector<std::string> lowest_errors(const std::vector<Row>& rows);
/// The table and the claims, for a terminal.
std::string to_text(const std::string& title, const std::vector<Row>& rows,
                    const std::vector<report::Claim>& claims);

}  // namespace cdt::experiment
