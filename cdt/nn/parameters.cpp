#include <cdt/core/error.h>
#include <cdt/core/safetensors.h>
#include <cdt/nn/parameters.h>

namespace cdt::nn {
namespace {

std::string names_of(const NamedTensors& tensors) {
  constexpr size_t kShown = 8;
  std::string names;
  size_t count = 0;
  for (const auto& [name, tensor] : tensors) {
    if (++count > kShown) break;
    names += (names.empty() ? "" : ", ") + name;
  }
  if (tensors.size() > kShown) names += c10::str(" and ", tensors.size() - kShown, " more");
  return names.empty() ? "none" : names;
}

}  // namespace

NamedTensors named_tensors(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

void copy_tensors(const NamedTensors& from, const NamedTensors& to) {
  for (const auto& [name, tensor] : to) {
    const auto found = from.find(name);
    CDT_REQUIRE(found != from.end(), "expected a tensor ", name, ", but there are ",
                names_of(from));
    CDT_REQUIRE(found->second.sizes() == tensor.sizes(), "expected ", name, " of shape ",
                tensor.sizes(), ", got ", found->second.sizes());
    CDT_REQUIRE(found->second.scalar_type() == tensor.scalar_type(), "expected ", name, " in ",
                tensor.scalar_type(), ", got ", found->second.scalar_type());
  }
  for (const auto& [name, tensor] : from) {
    CDT_REQUIRE(to.count(name) > 0, "expected no tensor ", name, ": those of the module are ",
                names_of(to));
  }
  const torch::NoGradGuard no_graph;
  for (const auto& [name, tensor] : to) torch::Tensor(tensor).copy_(from.at(name));
}

void save_parameters(const std::filesystem::path& path, const NamedTensors& tensors) {
  SafeTensors file;
  for (const auto& [name, tensor] : tensors) file.tensors[name] = tensor.detach();
  save_safetensors(path, file);
}

void save_parameters(const std::filesystem::path& path, const torch::nn::Module& module) {
  save_parameters(path, named_tensors(module));
}

void load_parameters(const std::filesystem::path& path, const NamedTensors& tensors) {
  const SafeTensors file = load_safetensors(path);
  try {
    copy_tensors(file.tensors, tensors);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(c10::str(path.string(), ": ", error.what()));
  }
}

void load_parameters(const std::filesystem::path& path, torch::nn::Module& module) {
  load_parameters(path, named_tensors(module));
}

}  // namespace cdt::nn
