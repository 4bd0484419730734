/// Parameters and buffers of any module on disk, by name: safetensors files, with no code in them.
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

/// All parameters and buffers of a module and of those in it, sharing their storage.
NamedTensors named_tensors(const torch::nn::Module& module);

/// Copies values by name, all of them or, if something does not fit, none.
/// @throws InvalidArgument if a tensor of `to` is missing in `from`, one of `from` has no place in
///   `to`, or shape or dtype differ; the message gives the name, what was expected and what came.
void copy_tensors(const NamedTensors& from, const NamedTensors& to);

/// @throws InvalidArgument if safetensors lacks a dtype, or the file cannot be written.
void save_parameters(const std::filesystem::path& path, const NamedTensors& tensors);
void save_parameters(const std::filesystem::path& path, const torch::nn::Module& module);

/// Values are taken as they are, on whatever device the tensors lie. What the file cannot say is
/// whether the module computes with them what it was trained to: that is for the caller to know
/// (saved_model.h keeps the architecture as well).
/// @throws InvalidArgument, naming the file, if it is no safetensors file or its tensors are not
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
