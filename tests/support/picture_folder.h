/// Small generated pictures as files, one folder per class.
#pragma once

#include <cdt/core/io/file.h>
#include <cdt/image/formats/generated.h>

#include "support/temp_folder.h"

namespace cdt::test {

/// `count` pictures of 16 × 16 pixels in folder/name/{disc,square}/N.png; N from 0.
inline std::filesystem::path write_pictures(const TempFolder& folder, int64_t count,
                                            const std::string& name = "shapes") {
  const image::GeneratedPictures made = image::make_pictures(count, 1, 16);
  for (const std::string& each : made.classes) make_folders(folder / name / each);
  for (size_t i = 0; i < made.pictures.size(); ++i) {
    const std::string& label = made.classes[static_cast<size_t>(made.labels[i])];
    write_file_atomically(folder / name / label / (std::to_string(i) + ".png"),
                          {image::encode_png(made.pictures[i])});
  }
  return folder / name;
}

/// The bytes of an IDX file with this shape.
inline std::string idx_bytes(const std::vector<uint32_t>& shape, const std::string& bytes) {
  std::string file{0, 0, 8, static_cast<char>(shape.size())};
  for (const uint32_t size : shape) {
    for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(size >> shift & 255);
  }
  return file + bytes;
}

}  // namespace cdt::test
