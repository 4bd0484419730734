#include <cdt/core/error.h>
#include <cdt/kernel/factor/backward.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include <unordered_set>

namespace cdt::kernel {
namespace {

using torch::Tensor;
using torch::autograd::CopySlices;
using torch::autograd::Edge;
using torch::autograd::Node;

/// All leaves of the graph if it writes into a slice of a tensor, none otherwise.
std::vector<Edge> leaves_of_slices(const Edge& root) {
  std::vector<Edge> leaves;
  bool slices = false;
  std::vector<Edge> pending{root};
  std::unordered_set<const Node*> seen{root.function.get()};
  while (!pending.empty()) {
    const Edge edge = pending.back();
    pending.pop_back();
    slices = slices || dynamic_cast<const CopySlices*>(edge.function.get()) != nullptr;
    bool leaf = true;
    for (const Edge& next : edge.function->next_edges()) {
      if (!next.is_valid()) continue;
      leaf = false;
      if (seen.insert(next.function.get()).second) pending.push_back(next);
    }
    if (leaf) leaves.push_back(edge);
  }
  return slices ? leaves : std::vector<Edge>();
}

/// LibTorch 1.13 and 2.x report this with different error types.
void refuse_missing(const std::string& error) {
  CDT_REQUIRE(
      error.find("derivative for") == std::string::npos ||
          error.find("not implemented") == std::string::npos,
      "LibTorch cannot differentiate an operator of this model often enough: ",
      error.substr(0, error.find('\n')),
      ". Use other operators (for EmbeddingBag: Embedding and a sum), or freeze its parameters");
}

std::vector<Tensor> executed(const Edge& root, const Tensor& seed, Graph graph,
                             const std::vector<Edge>& wanted) {
  try {
    return torch::autograd::Engine::get_default_engine().execute(
        {root}, {seed}, /*keep_graph=*/graph != Graph::kFreed,
        /*create_graph=*/graph == Graph::kExtended, /*accumulate_grad=*/false, wanted);
  } catch (const c10::Error& error) {
    refuse_missing(error.what_without_backtrace());
    throw;
  } catch (const std::runtime_error& error) {
    refuse_missing(error.what());
    throw;
  }
}

}  // namespace

std::vector<Tensor> gradients_at(const std::vector<Edge>& edges, const Tensor& outputs,
                                 const Tensor& seed, Graph graph) {
  if (edges.empty()) return {};
  const Edge root = torch::autograd::impl::gradient_edge(outputs);
  std::vector<Edge> wanted = edges;
  const auto leaves = leaves_of_slices(root);
  wanted.insert(wanted.end(), leaves.begin(), leaves.end());
  auto gradients = executed(root, seed, graph, wanted);
  gradients.resize(edges.size());
  for (Tensor& gradient : gradients) {
    if (gradient.defined() && gradient.is_sparse()) gradient = gradient.to_dense();
  }
  return gradients;
}

std::vector<Tensor> gradients_at(const std::vector<Tensor>& tensors, const Tensor& outputs,
                                 const Tensor& seed, Graph graph) {
  std::vector<Edge> edges;
  edges.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    edges.push_back(torch::autograd::impl::gradient_edge(tensor));
  }
  return gradients_at(edges, outputs, seed, graph);
}

}  // namespace cdt::kernel
