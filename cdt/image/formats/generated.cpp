#include <cdt/core/error.h>
#include <cdt/image/formats/generated.h>

#include <algorithm>
#include <array>
#include <random>

namespace cdt::image {
namespace {

using Colour = std::array<double, 3>;

/// Uses only sums, products and quotients, which give the same results on every machine; the
/// standard library's distributions do not.
class Painter {
 public:
  explicit Painter(uint64_t seed) : generator_(seed) {}

  Picture paint(int64_t side, bool round) {
    Picture picture{side, side, 3, {}};
    picture.pixels.reserve(static_cast<size_t>(side * side * 3));
    const Colour ground = colour(), far = colour(), figure = colour();
    const double x0 = uniform(0.3, 0.7), y0 = uniform(0.3, 0.7);
    const double width = uniform(0.12, 0.3), height = uniform(0.12, 0.3);
    const double t = uniform(-1, 1);  // the tangent of half the angle
    const double cosine = (1 - t * t) / (1 + t * t), sine = 2 * t / (1 + t * t);
    const double slope = uniform(0, 1);  // direction of the background's gradient, down or across
    constexpr double kNoise = 24;
    for (int64_t i = 0; i < side; ++i) {
      for (int64_t j = 0; j < side; ++j) {
        const double x = (static_cast<double>(j) + 0.5) / static_cast<double>(side);
        const double y = (static_cast<double>(i) + 0.5) / static_cast<double>(side);
        const double u = ((x - x0) * cosine + (y - y0) * sine) / width;
        const double v = ((y - y0) * cosine - (x - x0) * sine) / height;
        const bool inside = round ? u * u + v * v < 1 : std::max(u * u, v * v) < 1;
        const double share = slope * x + (1 - slope) * y;
        for (size_t c = 0; c < 3; ++c) {
          const double plain = inside ? figure[c] : (1 - share) * ground[c] + share * far[c];
          const double value = std::clamp(plain + uniform(-kNoise, kNoise), 0.0, 255.0);
          picture.pixels.push_back(static_cast<uint8_t>(value));
        }
      }
    }
    return picture;
  }

 private:
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(generator_() >> 11) * 0x1p-53;
  }
  Colour colour() { return {uniform(0, 255), uniform(0, 255), uniform(0, 255)}; }

  std::mt19937_64 generator_;
};

}  // namespace

GeneratedPictures make_pictures(int64_t count, uint64_t seed, int64_t side) {
  CDT_REQUIRE(count >= 1 && count <= 1'000'000, "expected 1 to 1000000 pictures, got ", count);
  CDT_REQUIRE(side >= 8 && side <= 4096, "expected sides from 8 to 4096 pixels, got ", side);
  GeneratedPictures made;
  Painter painter(seed);
  for (int64_t i = 0; i < count; ++i) {
    made.labels.push_back(i % 2);
    made.pictures.push_back(painter.paint(side, i % 2 == 0));
  }
  return made;
}

}  // namespace cdt::image
