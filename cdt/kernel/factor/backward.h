/// Backward passes to places of the graph, with a workaround for a bug of LibTorch's engine.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/types.h>

#include <vector>

namespace cdt::kernel {

/// What a backward pass keeps: nothing, the graph for another pass, or also a graph of the
/// gradients.
enum class Graph { kFreed, kKept, kExtended };

/// Gradients of seedᵀoutputs at edges of the graph, undefined where the outputs do not depend on
/// them.
///
/// If a network writes into slices of a tensor (`h[:, 0] = …`), LibTorch's `grad` fails unless all
/// leaves are requested, since it executes nodes that no edge needs. Here they are requested and
/// dropped.
std::vector<torch::Tensor> gradients_at(const std::vector<torch::autograd::Edge>& edges,
                                        const torch::Tensor& outputs, const torch::Tensor& seed,
                                        Graph graph);

/// The same for tensors.
std::vector<torch::Tensor> gradients_at(const std::vector<torch::Tensor>& tensors,
                                        const torch::Tensor& outputs, const torch::Tensor& seed,
                                        Graph graph);

}  // namespace cdt::kernel
