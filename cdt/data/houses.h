/// A generated example data set of mixed types: houses and their prices.
///
/// All draws are integers and all arithmetic is integer, so a seed gives the same bytes on every
/// platform. Let U(a, b) be uniform on a, …, b. Per row, drawn in this order:
///
///   area       U(40, 240)                       m²
///   rooms      1 + area/35 + U(0, 2)            (integer division, here and below)
///   year       U(1900, 2020)
///   quality    U(1, 10)
///   district   Centre, Harbour, Hills, "Old Town, North", Suburb   equally likely
///   heating    district, electric, gas or oil, equally likely
///   garage     attached, built-in, detached; missing (no garage) with probability 2/5
///   lot        2·area + U(0, 600)               m²; missing with probability 1/8
///   noise      (Σ of twelve U(0, 1000)) − 6000  mean 0, standard deviation 1001, nearly normal
///
///   price = 20000 + area · rate(district) · (60 + 8·quality) / 100
///         + 300·(year − 1900) + 40·lot + g(garage) + h(heating) + 6·noise
///
/// with rate = 1400, 1100, 1250, 1000, 800; g = 12000, 15000, 8000, 0 (missing); h = 6000, 0, 3000,
/// −4000, each in the order above. A missing lot still counts in the price, so imputation has a
/// cost. Missing numbers are empty cells, missing text is NA. The target is `price`.
#pragma once

#include <cdt/core/error.h>

#include <cstdint>
#include <string>

namespace cdt::data {

/// The data set as CSV text with a header.
/// @throws InvalidArgument unless rows ≥ 1.
std::string make_houses(int64_t rows, uint64_t seed);

}  // namespace cdt::data
