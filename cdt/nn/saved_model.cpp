#include <cdt/core/error.h>
#include <cdt/core/safetensors.h>
#include <cdt/nn/saved_model.h>

#include <nlohmann/json.hpp>

namespace cdt::nn {
namespace {

constexpr const char* kArchitecture = "architecture";

std::string type_of(const std::string& record) {
  const auto json = nlohmann::json::parse(record);
  CDT_REQUIRE(json.is_object(), "the architecture record must be a JSON object, not ",
              json.type_name());
  CDT_REQUIRE(json.contains("type"), "the architecture record lacks 'type'");
  CDT_REQUIRE(json["type"].is_string(), "the architecture record's type must be text, not ",
              json["type"].dump());
  return json["type"];
}

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
    return find_architecture(table, type_of(record->second)).restore(record->second, file.tensors);
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(
        c10::str(path.string(), ": the architecture record is not as expected: ", error.what()));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(c10::str(path.string(), ": ", error.what()));
  }
}

}  // namespace cdt::nn
