/// Assets embedded in every page: the chart library, our style and our script.
#pragma once

#include <string_view>

namespace cdt::report::assets {

extern const std::string_view kChartJs;  ///< with its licence notice
extern const std::string_view kCss;
extern const std::string_view kScript;

}  // namespace cdt::report::assets
