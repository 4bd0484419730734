#include "cdt/data/houses.h"

#include <array>
#include <random>

#include "cdt/core/error.h"
#include "cdt/data/split.h"

namespace cdt::data {
namespace {

/// A category and its effect on the price, added or multiplied.
struct Kind {
  const char* cell;  ///< as in the file, quoted if necessary
  int64_t worth;
};

constexpr std::array kDistricts{Kind{"Centre", 1400}, Kind{"Harbour", 1100}, Kind{"Hills", 1250},
                                Kind{"\"Old Town, North\"", 1000}, Kind{"Suburb", 800}};
constexpr std::array kHeatings{Kind{"district", 6000}, Kind{"electric", 0}, Kind{"gas", 3000},
                               Kind{"oil", -4000}};
// Two of five entries mean no garage.
constexpr std::array kGarages{Kind{"attached", 12000}, Kind{"built-in", 15000},
                              Kind{"detached", 8000}, Kind{"NA", 0}, Kind{"NA", 0}};

}  // namespace

std::string make_houses(int64_t rows, uint64_t seed) {
  CDT_REQUIRE(rows >= 1, "expected one row or more, got ", rows);
  std::mt19937_64 generator(seed);
  const auto uniform = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(draw_below(static_cast<uint64_t>(high - low + 1), generator));
  };
  const auto choose = [&](const auto& kinds) {
    return kinds[static_cast<size_t>(uniform(0, static_cast<int64_t>(kinds.size()) - 1))];
  };
  std::string text = "area,rooms,year,quality,district,heating,garage,lot,price\n";
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t area = uniform(40, 240);
    const int64_t rooms = 1 + area / 35 + uniform(0, 2);
    const int64_t year = uniform(1900, 2020);
    const int64_t quality = uniform(1, 10);
    const Kind district = choose(kDistricts);
    const Kind heating = choose(kHeatings);
    const Kind garage = choose(kGarages);
    const int64_t lot = 2 * area + uniform(0, 600);
    const bool lot_known = uniform(0, 7) > 0;
    int64_t noise = -6000;
    for (int k = 0; k < 12; ++k) noise += uniform(0, 1000);
    const int64_t price = 20000 + area * district.worth * (60 + 8 * quality) / 100 +
                          300 * (year - 1900) + 40 * lot + garage.worth + heating.worth + 6 * noise;
    text +=
        c10::str(area, ",", rooms, ",", year, ",", quality, ",", district.cell, ",", heating.cell,
                 ",", garage.cell, ",", lot_known ? std::to_string(lot) : "", ",", price, "\n");
  }
  return text;
}

}  // namespace cdt::data
