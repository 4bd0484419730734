/// The safetensors format: the length of a JSON header, the header, then the tensors' bytes without
/// gap or overlap.
///
/// The file may come from anywhere, so every size in it is checked against the bytes that are there
/// before anything is allocated.
#include "cdt/core/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "cdt/core/byte_count.h"
#include "cdt/core/error.h"
#include "cdt/core/file.h"

namespace cdt {
namespace {

static_assert(std::endian::native == std::endian::little, "files and memory share one byte order");

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 8;                  // Of the data, as far as a header can give it.
constexpr uint64_t kLongestHeader = 100'000'000;  // The format's own limit.
constexpr const char* kMetadata = "__metadata__";

struct Dtype {
  std::string_view name;
  torch::ScalarType type;
};
constexpr std::array kDtypes{
    Dtype{"F64", torch::kFloat64},   Dtype{"F32", torch::kFloat32}, Dtype{"F16", torch::kFloat16},
    Dtype{"BF16", torch::kBFloat16}, Dtype{"I64", torch::kInt64},   Dtype{"I32", torch::kInt32},
    Dtype{"I16", torch::kInt16},     Dtype{"I8", torch::kInt8},     Dtype{"U8", torch::kUInt8},
    Dtype{"BOOL", torch::kBool},
};

std::string dtype_names() {
  std::string names;
  for (const Dtype& dtype : kDtypes) names += (names.empty() ? "" : ", ") + std::string(dtype.name);
  return names;
}

/// The beginning of a JSON value, fit to be printed.
std::string excerpt(const json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > 80) text.replace(77, std::string::npos, "...");
  return text;
}

/// One tensor's record in the header; `begin` and `end` count from the first byte of data.
struct Record {
  std::string name;
  torch::ScalarType dtype;
  std::vector<int64_t> shape;
  int64_t begin;
  int64_t end;
};

/// Parses the header, refusing what the JSON library would let pass: a name that comes twice (the
/// last would win) and nesting deeper than the format's.
json parse_header(std::string_view text, const std::string& file) {
  constexpr int kDeepest = 2;  // {"name": {"shape": [
  std::array<std::set<std::string>, kDeepest + 2> keys;
  const auto check = [&](int depth, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      CDT_REQUIRE(depth <= kDeepest, file,
                  ": expected a safetensors header of records and lists, but it nests deeper");
      keys[depth + 1].clear();
    } else if (event == json::parse_event_t::key) {
      CDT_REQUIRE(keys[depth].insert(value.get<std::string>()).second, file,
                  ": expected each name once in the safetensors header, but ", excerpt(value),
                  " came twice");
    }
    return true;
  };
  CDT_REQUIRE(text.starts_with('{'), file,
              ": expected a safetensors header, which starts with '{', but it does not");
  const size_t zero = text.find('\0');  // Which the JSON library takes for the end of its input.
  CDT_REQUIRE(zero == std::string_view::npos, file,
              ": expected a safetensors header in JSON, but it is malformed at byte ", zero + 1);
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& error) {
    throw InvalidArgument(c10::str(
        file, ": expected a safetensors header in JSON, but it is malformed at byte ", error.byte));
  } catch (const json::exception&) {
    throw InvalidArgument(
        c10::str(file, ": expected a safetensors header in JSON, but a number in it is too large"));
  }
}

std::map<std::string, std::string> read_metadata(const json& value, const std::string& file) {
  CDT_REQUIRE(value.is_object(), file, ": expected ", kMetadata,
              " to map strings to strings, but it is ", excerpt(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    CDT_REQUIRE(text.is_string(), file, ": expected ", kMetadata,
                " to map strings to strings, but ", excerpt(key), " has ", excerpt(text));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

/// `where` is the file and the tensor, for messages.
int64_t read_size(const json& value, std::string_view what, const std::string& where) {
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  CDT_REQUIRE(value.is_number_unsigned() && value.get<uint64_t>() <= kLargest, where, "expected ",
              what, " of whole numbers, zero or above, but came ", excerpt(value));
  return value.get<int64_t>();
}

Record read_record(const std::string& name, const json& value, const std::string& file) {
  const std::string where = c10::str(file, ": tensor ", excerpt(name), ": ");
  CDT_REQUIRE(value.is_object() && value.size() == 3 && value.contains("dtype") &&
                  value.contains("shape") && value.contains("data_offsets"),
              where, "expected a record of dtype, shape and data_offsets, but came ",
              excerpt(value));
  Record record{name, {}, {}, 0, 0};

  const json& dtype = value["dtype"];
  const auto known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& candidate) {
    return dtype.is_string() && dtype.get_ref<const std::string&>() == candidate.name;
  });
  CDT_REQUIRE(known != kDtypes.end(), where, "expected a dtype among ", dtype_names(),
              ", but came ", excerpt(dtype));
  record.dtype = known->type;

  const json& shape = value["shape"];
  CDT_REQUIRE(shape.is_array(), where, "expected a shape as a list, but came ", excerpt(shape));
  for (const json& size : shape) record.shape.push_back(read_size(size, "a shape", where));

  const json& offsets = value["data_offsets"];
  CDT_REQUIRE(offsets.is_array() && offsets.size() == 2, where,
              "expected data_offsets as a list of two, but came ", excerpt(offsets));
  record.begin = read_size(offsets[0], "data_offsets", where);
  record.end = read_size(offsets[1], "data_offsets", where);
  const int64_t needed = byte_count(record.dtype, record.shape, where);
  CDT_REQUIRE(record.end - record.begin == needed, where, "expected data_offsets that span ",
              needed, " bytes for shape ", c10::IntArrayRef(record.shape), " of ", known->name,
              ", but came ", excerpt(offsets));
  return record;
}

/// The tensors must cover the data exactly: each begins where the one before it ends.
void require_tiling(std::vector<Record> records, int64_t data_size, const std::string& file) {
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t covered = 0;
  for (const Record& record : records) {
    CDT_REQUIRE(record.begin == covered, file, ": tensor ", excerpt(record.name),
                ": expected its data to begin at byte ", covered,
                ", where the one before ends, but ", "it begins at ", record.begin,
                record.begin < covered ? " and overlaps" : " and leaves a hole");
    covered = record.end;
    CDT_REQUIRE(covered <= data_size, file, ": tensor ", excerpt(record.name),
                ": expected its data to end within the file's ", data_size,
                " bytes of data, but it ends at ", covered);
  }
  CDT_REQUIRE(covered == data_size, file, ": expected ", covered,
              " bytes of data, as the tensors need, but came ", data_size);
}

torch::Tensor read_tensor(const Record& record, std::string_view data, const std::string& file) {
  torch::Tensor tensor =
      torch::empty(record.shape, torch::TensorOptions().dtype(record.dtype).device(torch::kCPU));
  const std::string_view bytes = data.substr(static_cast<size_t>(record.begin),
                                             static_cast<size_t>(record.end - record.begin));
  if (bytes.empty()) return tensor;
  if (record.dtype == torch::kBool) {
    // Any other byte in a bool is undefined behaviour.
    const auto bad = std::find_if(bytes.begin(), bytes.end(), [](char c) { return c & ~1; });
    CDT_REQUIRE(bad == bytes.end(), file, ": tensor ", excerpt(record.name),
                ": expected BOOL bytes of 0 or 1, but byte ", bad - bytes.begin(), " is ",
                static_cast<int>(static_cast<unsigned char>(*bad)));
  }
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace

SafeTensors load_safetensors(const std::filesystem::path& path) {
  const std::string file = path.string();
  const std::string bytes = read_file(path);
  CDT_REQUIRE(bytes.size() >= kLengthBytes, file,
              ": expected a safetensors file, which starts with ", kLengthBytes,
              " bytes of header length, but it has ", bytes.size(), " bytes");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  CDT_REQUIRE(length <= kLongestHeader && length <= bytes.size() - kLengthBytes, file,
              ": expected a safetensors header within the file and of at most ", kLongestHeader,
              " bytes, but its length is ", length, " in a file of ", bytes.size(), " bytes");
  const std::string_view text = std::string_view(bytes).substr(kLengthBytes, length);
  const std::string_view data = std::string_view(bytes).substr(kLengthBytes + length);

  SafeTensors content;
  std::vector<Record> records;
  const json header = parse_header(text, file);
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      content.metadata = read_metadata(value, file);
    } else {
      records.push_back(read_record(name, value, file));
    }
  }
  require_tiling(records, static_cast<int64_t>(data.size()), file);
  for (const Record& record : records) {
    content.tensors[record.name] = read_tensor(record, data, file);
  }
  return content;
}

void save_safetensors(const std::filesystem::path& path, const SafeTensors& content) {
  struct Piece {
    std::string name;
    std::string_view dtype;
    torch::Tensor values;
  };
  const std::string file = path.string();
  std::vector<Piece> pieces;
  for (const auto& [name, tensor] : content.tensors) {
    const std::string where = c10::str(file, ": tensor ", excerpt(name), ": ");
    CDT_REQUIRE(name != kMetadata, where, "expected another name, because this one is reserved");
    CDT_REQUIRE(tensor.defined(), where, "expected a tensor to save, but it is undefined");
    CDT_REQUIRE(tensor.layout() == torch::kStrided && !tensor.is_meta(), where,
                "expected a dense tensor to save, but it has layout ", tensor.layout(), " on ",
                tensor.device());
    const auto dtype =
        std::find_if(kDtypes.begin(), kDtypes.end(),
                     [type = tensor.scalar_type()](const Dtype& d) { return d.type == type; });
    CDT_REQUIRE(dtype != kDtypes.end(), where, "expected a dtype among ", dtype_names(),
                ", but it is ", tensor.scalar_type());
    pieces.push_back(
        {name, dtype->name, tensor.detach().to(torch::kCPU).resolve_neg().contiguous()});
  }
  // Wide dtypes first keeps every tensor aligned; the map has already sorted the names.
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.values.element_size() > b.values.element_size();
  });

  auto header = nlohmann::ordered_json::object();
  if (!content.metadata.empty()) header[kMetadata] = content.metadata;
  std::vector<std::string_view> parts(1);
  size_t offset = 0;
  for (const Piece& piece : pieces) {
    const size_t end = offset + piece.values.nbytes();
    header[piece.name] = {{"dtype", piece.dtype},
                          {"shape", piece.values.sizes().vec()},
                          {"data_offsets", {offset, end}}};
    parts.emplace_back(static_cast<const char*>(piece.values.data_ptr()), end - offset);
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw InvalidArgument(
        c10::str(file, ": expected names and metadata in UTF-8, but came other bytes"));
  }
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  CDT_REQUIRE(length <= kLongestHeader, file, ": expected a header of at most ", kLongestHeader,
              " bytes, but names and metadata make it ", length);
  text.insert(0, reinterpret_cast<const char*>(&length), kLengthBytes);
  parts[0] = text;
  write_file_atomically(path, parts);
}

}  // namespace cdt
