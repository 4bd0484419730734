/// Screenshots of a page, taken by the system's Chromium.
#pragma once

#include <filesystem>
#include <string>

namespace cdt::cli {

/// Returns the first of chromium, chromium-browser and google-chrome in PATH.
/// @throws std::runtime_error if there is none; the message names the package.
std::filesystem::path find_browser();

/// Opens `page` at `fragment` in a headless window of this size and saves a screenshot to
/// `picture`.
/// @throws std::runtime_error if the browser fails or takes longer than a minute.
void take_picture(const std::filesystem::path& browser, const std::filesystem::path& page,
                  const std::string& fragment, int width, int height,
                  const std::filesystem::path& picture);

}  // namespace cdt::cli
