/// The table of a sweep as text, CSV and Markdown.
#pragma once

#include <cdt/experiment/summary.h>

namespace cdt::experiment {

std::string to_csv(const std::vector<Row>& rows);
std::string to_markdown(const std::string& title, const std::vector<Row>& rows,
                        const std::vector<report::Claim>& claims);
/// The table and the claims, for a terminal.
std::string to_text(const std::string& title, const std::vector<Row>& rows,
                    const std::vector<report::Claim>& claims);

}  // namespace cdt::experiment
