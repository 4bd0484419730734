/// Settings of a run (cdt/study/settings.h), under this module's names.
#pragma once

#include <cdt/run/options.h>
#include <cdt/study/settings.h>

namespace cdt::run {

using study::all_settings, study::apply, study::decided_settings, study::find_setting,
    study::is_decided, study::require_fitting, study::require_same_run, study::Setting,
    study::Settings, study::SettingValue, study::usual_settings;

}  // namespace cdt::run
