/// Residuals (loss/residuals.h) shared among ranks.
#pragma once

#include <cdt/loss/loss.h>
#include <cdt/train/ranks.h>

namespace cdt::train {

using loss::Residuals;

Residuals of_range(const Residuals& all, const Share& rows);
/// The residuals of all ranks.
Residuals gathered(const Residuals& own, const Ranks& ranks);

}  // namespace cdt::train
