#include <cdt/core/error.h>
#include <cdt/core/machine/streams.h>
#include <cdt/nn/passes/picture_pass.h>

#include <algorithm>

namespace cdt::nn {
namespace {

using torch::Tensor;

/// Stream number (core/machine/streams.h): parameters are updated while gradients of earlier layers
/// are computed.
constexpr size_t kMovesOfPictures = 1;

/// Memory limit for patches, which are kept for the step; the graph needs less.
constexpr double kMostPatchBytes = 2.0 * (int64_t{1} << 30);

/// Unfolding a patch takes a GPU as long as its product with this many channels; with fewer, cuDNN
/// is faster. Measured on an H200.
constexpr int64_t kChannelsOfACut = 80;

/// z [c, r, h, w], any strides → [c·k·k, r·positions]
Tensor cut_patches(const Tensor& z, int64_t kernel, int64_t stride, int64_t padding) {
  const Tensor padded =
      padding == 0 ? z : torch::constant_pad_nd(z, {padding, padding, padding, padding});
  const auto positions = [&](int64_t d) { return (padded.size(d) - kernel) / stride + 1; };
  const auto s = padded.strides();
  return padded
      .as_strided({z.size(0), kernel, kernel, z.size(1), positions(2), positions(3)},
                  {s[0], s[2], s[3], s[1], s[2] * stride, s[3] * stride})
      .reshape({z.size(0) * kernel * kernel, -1});
}

/// Number of copies of a pixel in a grid, by height and width; none if the grid does not copy
/// pixels.
std::pair<int64_t, int64_t> grid_copies(const ConvNet& model) {
  const int64_t grid = model->options().grid;
  if (grid == 0) return {1, 1};
  const auto extent = model->extent_behind_stages();
  if (grid % extent[1] != 0 || grid % extent[2] != 0) return {0, 0};
  return {grid / extent[1], grid / extent[2]};
}

void require_pictures_taken(const ConvNet& model, const Tensor& x) {
  CDT_REQUIRE(PicturePass::takes(model, x),
              "a pass by products needs a ReLU network without scaled or frozen weights, with gaps "
              "between positions in its first layer alone, and pictures [r, ",
              c10::Join(", ", model->options().input_shape),
              "] of its dtype and device; the inputs have shape ", x.sizes());
}

}  // namespace

bool PicturePass::takes(const ConvNet& model, const Tensor& x) {
  const ConvNetOptions& options = model->options();
  if (options.activation != Activation::kRelu || model->scaled() || options.stages.empty() ||
      x.dim() != 4 || x.size(0) == 0 || x.sizes().slice(1) != options.input_shape ||
      grid_copies(model).first == 0) {
    return false;
  }
  double bytes = 0;
  for (size_t i = 0; i < options.stages.size(); ++i) {
    const ConvStage& stage = options.stages[i];
    if (i > 0 && (stage.stride != 1 || stage.padding >= stage.kernel)) return false;
    bytes += static_cast<double>(model->weight(i)[0].numel() * x.size(0)) * model->positions(i) *
             static_cast<double>(x.element_size());
  }
  if (bytes > kMostPatchBytes) return false;
  const auto parameters = model->parameters();
  return std::all_of(parameters.begin(), parameters.end(), [&](const Tensor& parameter) {
    return parameter.requires_grad() && parameter.is_contiguous() &&
           parameter.device() == x.device() && parameter.scalar_type() == x.scalar_type();
  });
}

Tensor PicturePass::evaluate(const ConvNet& model, const Tensor& x) {
  return PicturePass(model, x, /*to_move=*/false).outputs_;
}

PicturePass::PicturePass(const ConvNet& model, const Tensor& x)
    : PicturePass(model, x, /*to_move=*/true) {}

PicturePass::PicturePass(const ConvNet& model, const Tensor& x, bool to_move) : model_(model) {
  require_pictures_taken(model_, x);
  const torch::NoGradGuard no_graph;
  const size_t count = model_->options().stages.size();
  stages_.resize(count);
  Aside aside(x.device(), kMovesOfPictures);
  aside.run([&] {  // depends on weights only
    const auto [high, wide] = grid_copies(model_);
    if (high * wide > 1) {
      const int64_t grid = model_->options().grid;
      const Tensor& weight = model_->weight(count);
      folded_ = torch::avg_pool2d(weight.view({weight.size(0), -1, grid, grid}), {high, wide},
                                  {high, wide}, 0, /*ceil_mode=*/false, /*count_include_pad=*/true,
                                  /*divisor_override=*/1)
                    .flatten(1);
    }
    for (size_t i = 1; to_move && i < count; ++i) {
      const Tensor turned = model_->weight(i).flip({2, 3}).transpose(0, 1);
      stages_[i].turned = turned.size(0) < kChannelsOfACut
                              ? turned.contiguous(torch::MemoryFormat::ChannelsLast)
                              : turned.reshape({turned.size(0), -1});
    }
  });
  Tensor z = x.transpose(0, 1);
  for (size_t i = 0; i < count; ++i) {
    add_stage(i, z);
    z = stages_[i].outputs;
    if (!to_move) stages_[i] = {};
  }
  z = z.transpose(0, 1).reshape({x.size(0), -1});
  aside.join();
  for (size_t layer = count; layer < model_->depth(); ++layer) {
    // The larger side first, which is faster in cuBLAS for some dozen samples.
    Tensor h = torch::mm(acting_weight(layer), z.t()).t().contiguous().add_(model_->bias(layer));
    dense_inputs_.push_back(z);
    z = layer + 1 == model_->depth() ? h : h.relu_();
  }
  outputs_ = z;
}

/// Applies a convolution to z [c, r, h, w]. Max pooling comes before bias and ReLU, which are
/// monotonic, so these process fewer numbers.
void PicturePass::add_stage(size_t number, const Tensor& z) {
  const ConvStage& stage = model_->options().stages[number];
  const Tensor& weight = model_->weight(number);
  Stage& kept = stages_[number];
  kept.patches = cut_patches(z, stage.kernel, stage.stride, stage.padding);
  const auto side = [&](int64_t d) {
    return (z.size(d) + 2 * stage.padding - stage.kernel) / stage.stride + 1;
  };
  Tensor h = torch::mm(weight.view({weight.size(0), -1}), kept.patches)
                 .view({weight.size(0), z.size(1), side(2), side(3)});
  if (stage.pool > 0) {
    kept.response = h;
    std::tie(h, kept.maxima) = torch::max_pool2d_with_indices(h, stage.pool, stage.pool_stride);
  }
  kept.outputs = h.add_(model_->bias(number).view({-1, 1, 1, 1})).relu_();
}

/// The gradient at a convolution's inputs: the gradient at its response, convolved with the flipped
/// weights.
Tensor PicturePass::back_through(size_t number, const Tensor& gradient) const {
  const ConvStage& stage = model_->options().stages[number];
  const Tensor& turned = stages_[number].turned;
  const int64_t padding = stage.kernel - 1 - stage.padding;
  if (turned.dim() == 4) {
    const Tensor g = gradient.transpose(0, 1).contiguous(torch::MemoryFormat::ChannelsLast);
    return torch::conv2d(g, turned, {}, /*stride=*/1, padding).transpose(0, 1).contiguous();
  }
  const int64_t grown = 2 * padding - stage.kernel + 1;
  return torch::mm(turned, cut_patches(gradient, stage.kernel, 1, padding))
      .view({turned.size(0), gradient.size(1), gradient.size(2) + grown, gradient.size(3) + grown});
}

const Tensor& PicturePass::acting_weight(size_t layer) const {
  return folded_.defined() && layer == stages_.size() ? folded_ : model_->weight(layer);
}

void PicturePass::move_dense(size_t layer, const Tensor& gradient, const Tensor& z,
                             const Tensor& keep) const {
  Tensor weight = model_->weight(layer);
  Tensor bias = model_->bias(layer);
  if (keep.defined()) {
    weight.mul_(keep);
    bias.mul_(keep);
  }
  bias.sub_(gradient.sum(0));
  if (!acting_weight(layer).is_same(folded_)) {
    weight.addmm_(gradient.t(), z, 1, -1);
    return;
  }
  const auto [high, wide] = grid_copies(model_);
  const auto extent = model_->extent_behind_stages();
  const int64_t units = weight.size(0);
  weight.view({units, extent[0], extent[1], high, extent[2], wide})
      .sub_(gradient.t().mm(z).view({units, extent[0], extent[1], 1, extent[2], 1}));
}

void PicturePass::move(const Tensor& seed, const Tensor& keep) {
  CDT_REQUIRE(!dense_inputs_.empty(),
              "a pass moves the parameters once; take another forward pass");
  CDT_REQUIRE(seed.sizes() == outputs_.sizes(), "the seed must have the outputs' shape ",
              outputs_.sizes(), ", got ", seed.sizes());
  const torch::NoGradGuard no_graph;
  Tensor gradient = seed.to(outputs_.scalar_type());
  std::vector<Tensor> in_use;
  Aside aside(seed.device(), kMovesOfPictures);
  for (size_t layer = model_->depth(); layer-- > stages_.size();) {
    const Tensor& z = dense_inputs_[layer - stages_.size()];
    Tensor before = torch::mm(gradient, acting_weight(layer));  // by its previous weights
    if (layer > stages_.size()) before = torch::threshold_backward(before, z, 0);
    aside.run([&] { move_dense(layer, gradient, z, keep); });
    in_use.push_back(gradient);
    gradient = before;
  }
  const Tensor& last = stages_.back().outputs;
  gradient = gradient.view({last.size(1), last.size(0), last.size(2), last.size(3)})
                 .transpose(0, 1)
                 .contiguous();
  for (size_t i = stages_.size(); i-- > 0;) {
    const ConvStage& options = model_->options().stages[i];
    const Stage& stage = stages_[i];
    const Tensor behind = torch::threshold_backward(gradient, stage.outputs, 0);
    const Tensor at = stage.maxima.defined()
                          ? torch::max_pool2d_with_indices_backward(
                                behind, stage.response, options.pool, options.pool_stride, 0, 1,
                                /*ceil_mode=*/false, stage.maxima)
                          : behind;
    const auto move_stage = [&] {
      Tensor weight = model_->weight(i);
      Tensor bias = model_->bias(i);
      if (keep.defined()) {
        weight.mul_(keep);
        bias.mul_(keep);
      }
      bias.sub_(behind.sum({1, 2, 3}));  // max pooling preserves the sum of gradients
      weight.view({weight.size(0), -1})
          .addmm_(at.view({weight.size(0), -1}), stage.patches.t(), 1, -1);
    };
    in_use.insert(in_use.end(), {behind, at});
    if (i == 0) {
      move_stage();
    } else {
      aside.run(move_stage);  // the flipped weights are copies
      gradient = back_through(i, at);
    }
  }
  aside.join();
  dense_inputs_.clear();
}

}  // namespace cdt::nn
