#include <cdt/core/names.h>
#include <cdt/study/options.h>

namespace cdt::study {
namespace {

constexpr Names<Fit, 2> kFits{{{"train", Fit::kTrain}, {"all", Fit::kAll}}};
constexpr Names<torch::ScalarType, 2> kDtypes{
    {{"float32", torch::kFloat32}, {"float64", torch::kFloat64}}};

}  // namespace

Fit parse_fit(std::string_view name) { return parse_name(kFits, name, "fit"); }
std::string to_string(Fit fit) { return name_of(kFits, fit); }

torch::ScalarType parse_dtype(std::string_view name) { return parse_name(kDtypes, name, "dtype"); }
std::string dtype_name(torch::ScalarType dtype) { return name_of(kDtypes, dtype); }

}  // namespace cdt::study
