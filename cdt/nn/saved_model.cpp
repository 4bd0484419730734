#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/nn/saved_model.h>

namespace cdt::nn {
namespace {

constexpr const char* kArchitecture = "architecture";
constexpr const char* kRecord = "the architecture record";

}  // namespace

SafeTensors to_safetensors(const Network& network) {
  SafeTensors file;
  file.metadata[kArchitecture] = network->record();
  for (const auto& [name, tensor] : network->saved_tensors()) file.tensors[name] = tensor.detach();
  return file;
}

void save_model(const std::filesystem::path& path, const Network& network) {
  save_safetensors(path, to_safetensors(network));
}

Network load_model(const std::filesystem::path& path, const Architectures& table) {
  return parse_model(load_safetensors(path), path.string(), table);
}

Network parse_model(const SafeTensors& content, const std::string& source,
                    const Architectures& table) {
  const auto record = content.metadata.find(kArchitecture);
  CDT_REQUIRE(record != content.metadata.end(), source,
              ": expected a model with its architecture in the metadata, found none");
  try {
    const std::string type = parse_json(record->second, kRecord)["type"].text();
    return find_architecture(table, type).restore(record->second, content.tensors);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(c10::str(source, ": ", error.what()));
  }
}

}  // namespace cdt::nn
