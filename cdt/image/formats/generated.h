/// A generated example set of pictures in two classes.
#pragma once

#include <cdt/core/error.h>
#include <cdt/image/picture.h>

namespace cdt::image {

struct GeneratedPictures {
  std::vector<std::string> classes{"disc", "square"};
  std::vector<Picture> pictures;
  std::vector<int64_t> labels;  ///< class indices, alternating
};

/// An ellipse or a rectangle of random position, size, proportion, direction and colour, on a
/// background with a colour gradient, with noise. The same seed gives the same bytes; a shorter set
/// is the beginning of a longer one.
/// @throws InvalidArgument unless 1 ≤ count ≤ 10⁶ and 8 ≤ side ≤ 4096.
GeneratedPictures make_pictures(int64_t count, uint64_t seed, int64_t side = 96);

}  // namespace cdt::image
