/// What the estimators need of the library: tables to networks that predict.
#include "model.h"

namespace cdt::python {

void bind_estimators(pybind11::module_&) {}

}  // namespace cdt::python
