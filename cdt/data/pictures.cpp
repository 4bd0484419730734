#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/data/encode/encoding.h>
#include <cdt/data/encode/targets.h>
#include <cdt/data/pictures.h>

namespace cdt::data {
namespace {

/// Scale over all pixels of a channel, x in [0, 1].
Scale channel_scale(const torch::Tensor& channel, Scaling scaling) {
  if (scaling == Scaling::kNone) return {};
  const torch::Tensor x = channel.to(torch::kFloat64);
  const double spread = scaling == Scaling::kStandard ? x.std(/*unbiased=*/false).item<double>()
                                                      : (x.max() - x.min()).item<double>();
  return {x.mean().item<double>(), spread > 0 ? spread : 1};
}

}  // namespace

TensorPictures::TensorPictures(torch::Tensor x) : x_(std::move(x)) {
  CDT_REQUIRE(x_.dim() == 4 && x_.scalar_type() == torch::kFloat32 && x_.numel() > 0,
              "expected pictures [r, channels, height, width] in float32, got ", x_.sizes(), " ",
              x_.scalar_type());
  require_finite(x_, "pictures");
}

torch::Tensor TensorPictures::load(const std::vector<int64_t>& rows) const {
  return x_.index_select(0, torch::tensor(rows, torch::kInt64));
}

torch::Tensor transform_pictures(const PictureFeatures& features, const Table& table,
                                 const std::vector<int64_t>& rows) {
  CDT_REQUIRE(table.pictures != nullptr, table.source, ": expected pictures, got a table");
  const auto shape = table.pictures->shape();
  CDT_REQUIRE(shape == features.shape, table.source, ": expected pictures of the shape ",
              c10::IntArrayRef(features.shape), ", got ", c10::IntArrayRef(shape));
  torch::Tensor x = table.pictures->load(rows);
  for (int64_t c = 0; c < x.size(1); ++c) {
    const Scale& scale = features.scales[static_cast<size_t>(c)];
    x.select(1, c).sub_(scale.offset).div_(scale.scale);
  }
  return features.flat ? x.flatten(1) : x;
}

Preprocess fit_pictures(const Table& table, const std::vector<int64_t>& rows,
                        const std::string& target, bool squares, Scaling scaling, bool flat) {
  CDT_REQUIRE(table.pictures != nullptr, table.source, ": expected pictures, got a table");
  Preprocess out;
  out.csv.delimiter = table.delimiter;
  out.targets.push_back(fit_classes(table, target, rows));
  out.targets[0].squares = squares;
  const torch::Tensor x = table.pictures->load(rows);
  PictureFeatures& features = out.pictures.emplace();
  features.shape = table.pictures->shape();
  features.flat = flat;
  for (int64_t c = 0; c < x.size(1); ++c) {
    features.scales.push_back(channel_scale(x.select(1, c), scaling));
  }
  return out;
}

}  // namespace cdt::data
