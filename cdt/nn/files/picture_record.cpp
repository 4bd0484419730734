#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/machine/memory.h>
#include <cdt/nn/files/picture_record.h>
#include <cdt/nn/files/record_fields.h>

#include <algorithm>

namespace cdt::nn {
namespace {

/// Larger sides are a mistake.
constexpr int64_t kLongestSide = 1 << 14;

}  // namespace

void require_units(int64_t value, std::string_view name) {
  CDT_REQUIRE(value >= 1 && value <= kMostUnits, name, " must be from 1 to ", kMostUnits, ", got ",
              value);
}

void require_picture_options(const PictureOptions& o) {
  CDT_REQUIRE(o.input_shape.size() == 3, "the architecture ", o.architecture,
              " takes pictures [channels, height, width], not samples of shape ",
              c10::IntArrayRef(o.input_shape));
  require_units(o.input_shape[0], "channels");
  require_units(o.outputs, "outputs");
  require_units(o.width_factor, "width factor");
  for (const size_t side : {1, 2}) {
    CDT_REQUIRE(o.input_shape[side] >= 1 && o.input_shape[side] <= kLongestSide,
                "the sides of pictures must be from 1 to ", kLongestSide, ", got ",
                o.input_shape[side]);
  }
}

void require_pictures(const torch::Tensor& x, const PictureOptions& options) {
  CDT_REQUIRE(x.dim() == 4 && x.sizes().slice(1) == c10::IntArrayRef(options.input_shape),
              "the network takes pictures of shape ", c10::IntArrayRef(options.input_shape),
              "; the inputs have shape ", x.sizes());
}

void take_options(const NetworkOptions& options, PictureOptions& network) {
  CDT_REQUIRE(options.bias, "the architecture ", network.architecture, " has biases");
  network.activation = options.activation;
  network.parametrization = options.parametrization;
  network.sigma_w = options.sigma_w;
  network.sigma_b = options.sigma_b;
  network.width_factor = options.width_factor;
}

void PictureOptions::fields(Fields& f) {
  f.need("type", architecture);
  f.each("input_shape", input_shape, [&](int64_t& size) { f.whole(size, 1, kMostUnits); });
  units_field(f, "outputs", outputs);
  activation_field(f, activation);
  parametrization_field(f, parametrization);
  f.need("sigma_w", sigma_w);
  f.need("sigma_b", sigma_b);
  units_field(f, "width_factor", width_factor);
}

bool is_counter(std::string_view name) {
  constexpr std::string_view kCounter = "num_batches_tracked";
  return name.size() >= kCounter.size() && name.substr(name.size() - kCounter.size()) == kCounter;
}

torch::ScalarType require_file_tensors(const NamedTensors& tensors, const NamedShapes& expected) {
  torch::ScalarType dtype = torch::kFloat32;
  for (const auto& [name, shape] : expected) {
    const auto it = tensors.find(name);
    CDT_REQUIRE(it != tensors.end(), "the tensor ", name, " is missing");
    require_shape(it->second, shape, name);
    if (is_counter(name)) continue;
    require_floating(it->second, name);
    require_finite(it->second, name);
    dtype = it->second.scalar_type();
  }
  for (const auto& [name, tensor] : tensors) {
    const torch::ScalarType wanted = is_counter(name) ? torch::kInt64 : dtype;
    CDT_REQUIRE(tensor.scalar_type() == wanted, "tensors must have one dtype; ", name, " is ",
                tensor.scalar_type(), ", expected was ", wanted);
  }
  CDT_REQUIRE(dtype == torch::kFloat32 || dtype == torch::kFloat64,
              "weights must be float32 or float64, got ", dtype);
  CDT_REQUIRE(tensors.size() == expected.size(), "the architecture has ", expected.size(),
              " tensors, the file ", tensors.size());
  return dtype;
}

void require_room(const NamedShapes& shapes, torch::ScalarType dtype, const std::string& what) {
  double entries = 0, largest = 0;
  for (const auto& [name, shape] : shapes) {
    double numel = 1;
    for (const int64_t size : shape) numel *= static_cast<double>(size);
    entries += numel;
    largest = std::max(largest, numel);
  }
  require_memory(entries * static_cast<double>(c10::elementSize(dtype)) +
                     largest * static_cast<double>(sizeof(double)),  // drawn in float64
                 what);
}

}  // namespace cdt::nn
