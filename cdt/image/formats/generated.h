/// A generated set of pictures in two classes, for whoever has none at hand.
#pragma once

#include <cdt/core/error.h>
#include <cdt/image/picture.h>

namespace cdt::image {

struct GeneratedPictures {
  std::vector<std::string> classes{"disc", "square"};
  std::vector<Picture> pictures;
  std::vector<int64_t> labels;  ///< indices into the classes, in turn
};

/// An ellipse, or a rectangle, of any place, size, proportion, direction and colour, over a ground
/// of another colour that changes from one side to the other, under noise. The same seed gives the
/// same bytes, and the first pictures of a longer set.
/// @throws InvalidArgument unless 1 ≤ count ≤ 10⁶ and 8 ≤ side ≤ 4096.
GeneratedPictures make_pictures(int64_t count, uint64_t seed, int64_t side = 96);

}  // namespace cdt::image
