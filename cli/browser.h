/// Pictures of a page, taken by the system's Chromium.
#pragma once

#include <filesystem>
#include <string>

namespace cdt::cli {

/// The first of chromium, chromium-browser, google-chrome that PATH holds.
/// @throws std::runtime_error if there is none; the message names the package.
std::filesystem::path find_browser();

/// Opens `page` at `fragment` in a window of this size, without a screen, and writes what it shows
/// to `picture`.
/// @throws std::runtime_error if the browser fails or takes longer than a minute.
void take_picture(const std::filesystem::path& browser, const std::filesystem::path& page,
                  const std::string& fragment, int width, int height,
                  const std::filesystem::path& picture);

}  // namespace cdt::cli
