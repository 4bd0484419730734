/// Saves and loads parameters and buffers of any module by name, as safetensors files, which
/// contain no code.
///
///     cdt::nn::save_parameters("net.safetensors", net);   // net: any torch::nn module
///     cdt::nn::load_parameters("net.safetensors", net);
///
/// Names are those of LibTorch, and of PyTorch for the same modules: `0.weight`, `bn.running_mean`.
#pragma once

#include <cdt/core/error.h>
#include <torch/nn/module.h>

#include <concepts>
#include <filesystem>
#include <map>
#include <string>

namespace cdt::nn {

using NamedTensors = std::map<std::string, torch::Tensor>;

/// All parameters and buffers of a module and its submodules, sharing their storage.
NamedTensors named_tensors(const torch::nn::Module& module);

/// Copies values by name: all of them, or none if something does not fit.
/// @throws InvalidArgument if a tensor of `to` is missing in `from`, one of `from` is not in `to`,
///   or shape or dtype differ; the message gives the name, what was expected and what was given.
void copy_tensors(const NamedTensors& from, const NamedTensors& to);

/// @throws InvalidArgument if safetensors has no such dtype, or the file cannot be written.
void save_parameters(const std::filesystem::path& path, const NamedTensors& tensors);
void save_parameters(const std::filesystem::path& path, const torch::nn::Module& module);

/// Copies the values to the tensors' devices. The file cannot tell whether the module uses them as
/// it did when it was trained; the caller must know (saved_model.h also stores the architecture).
/// @throws InvalidArgument, naming the file, if it is not a safetensors file or its tensors are not
///   those of the module (copy_tensors).
void load_parameters(const std::filesystem::path& path, const NamedTensors& tensors);
void load_parameters(const std::filesystem::path& path, torch::nn::Module& module);

/// A module in a holder or pointer.
template <class M>
concept PointsToModule = requires(const M& m) {
  { *m } -> std::convertible_to<const torch::nn::Module&>;
};
template <PointsToModule M>
void save_parameters(const std::filesystem::path& path, const M& module) {
  save_parameters(path, static_cast<const torch::nn::Module&>(*module));
}
template <PointsToModule M>
void load_parameters(const std::filesystem::path& path, const M& module) {
  load_parameters(path, named_tensors(*module));
}

}  // namespace cdt::nn
