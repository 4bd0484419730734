#include <cdt/core/error.h>
#include <cdt/core/json.h>
#include <cdt/core/safetensors.h>
#include <cdt/nn/saved_model.h>

namespace cdt::nn {
namespace {

constexpr const char* kArchitecture = "architecture";
constexpr const char* kRecord = "the architecture record";

}  // namespace

void save_model(const std::filesystem::path& path, const Network& network) {
  SafeTensors file;
  file.metadata[kArchitecture] = network->record();
  for (const auto& [name, tensor] : network->saved_tensors()) file.tensors[name] = tensor.detach();
  save_safetensors(path, file);
}

Network load_model(const std::filesystem::path& path, const Architectures& table) {
  const SafeTensors file = load_safetensors(path);
  const auto record = file.metadata.find(kArchitecture);
  CDT_REQUIRE(record != file.metadata.end(), path.string(),
              ": expected a model with its architecture in the metadata, found none");
  try {
    const std::string type = parse_json(record->second, kRecord)["type"].text();
    return find_architecture(table, type).restore(record->second, file.tensors);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(c10::str(path.string(), ": ", error.what()));
  }
}

}  // namespace cdt::nn
