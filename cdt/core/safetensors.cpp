/// The safetensors format: the length of a JSON header, the header, then the tensors' bytes without
/// gap or overlap.
///
/// Files are untrusted, so each size is checked against the available bytes before anything is
/// allocated.
#include "cdt/core/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "cdt/core/error.h"
#include "cdt/core/io/file.h"
#include "cdt/core/io/json.h"
#include "cdt/core/text/byte_count.h"

namespace cdt {
namespace {

static_assert(std::endian::native == std::endian::little, "files and memory share one byte order");

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 8;                  // Alignment of the data, as far as a header can
                                                  // ensure it.
constexpr uint64_t kLongestHeader = 100'000'000;  // The format's own limit.
static_assert(kLongestHeader <= kLongestJson);
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

/// One tensor's record in the header; `begin` and `end` count from the first byte of data.
struct Record {
  std::string name;
  torch::ScalarType dtype;
  std::vector<int64_t> shape;
  int64_t begin;
  int64_t end;
};

std::map<std::string, std::string> read_metadata(const JsonValue& value) {
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.members()) metadata[key] = text.text();
  return metadata;
}

/// Parses a valid record; empty for any other. Headers may have a million records, and tracking the
/// place of each for messages would dominate the time.
std::optional<Record> sound_record(const std::string& name, const nlohmann::ordered_json& value) {
  if (!value.is_object() || value.size() != 3) return std::nullopt;
  const auto dtype = value.find("dtype"), shape = value.find("shape"),
             offsets = value.find("data_offsets");
  const auto is_size = [](const nlohmann::ordered_json& each) {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return each.is_number_unsigned() && each.get<uint64_t>() <= kMost;
  };
  const auto is_sizes = [&](const auto& found) {
    return found != value.end() && found->is_array() &&
           std::all_of(found->begin(), found->end(), is_size);
  };
  if (dtype == value.end() || !dtype->is_string() || !is_sizes(shape) || !is_sizes(offsets) ||
      offsets->size() != 2) {
    return std::nullopt;
  }
  const auto known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& candidate) {
    return dtype->get_ref<const std::string&>() == candidate.name;
  });
  if (known == kDtypes.end()) return std::nullopt;
  Record record{name, known->type, shape->get<std::vector<int64_t>>(), (*offsets)[0].get<int64_t>(),
                (*offsets)[1].get<int64_t>()};
  int64_t bytes = static_cast<int64_t>(c10::elementSize(record.dtype));
  bool empty = false;
  for (const int64_t size : record.shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  if (empty) bytes = 0;
  return record.end - record.begin == bytes ? std::optional(std::move(record)) : std::nullopt;
}

Record read_record(const std::string& name, const JsonValue& value, const std::string& file) {
  const std::string where = c10::str(file, ": tensor ", excerpt(name), ": ");
  CDT_REQUIRE(value.raw().is_object() && value.raw().size() == 3 && value["dtype"].exists() &&
                  value["shape"].exists() && value["data_offsets"].exists(),
              where, "expected a record of dtype, shape and data_offsets, got ",
              excerpt(value.raw()));
  Record record{name, {}, {}, 0, 0};

  const JsonValue named = value["dtype"];
  const auto& dtype = named.raw();
  const auto known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& candidate) {
    return dtype.is_string() && dtype.get_ref<const std::string&>() == candidate.name;
  });
  CDT_REQUIRE(known != kDtypes.end(), where, "expected a dtype among ", dtype_names(), ", got ",
              excerpt(dtype));
  record.dtype = known->type;

  record.shape = value["shape"].counts();
  const auto offsets = value["data_offsets"].counts(2);
  record.begin = offsets[0];
  record.end = offsets[1];
  const int64_t needed = byte_count(record.dtype, record.shape, where);
  CDT_REQUIRE(record.end - record.begin == needed, where, "expected data_offsets that span ",
              needed, " bytes for shape ", c10::IntArrayRef(record.shape), " of ", known->name,
              ", got ", excerpt(value["data_offsets"].raw()));
  return record;
}

/// The tensors must cover the data exactly, each beginning at the end of the previous one.
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
              " bytes of data, as the tensors need, got ", data_size);
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
  return parse_safetensors(read_regular_file(path), path.string());
}

SafeTensors parse_safetensors(std::string_view bytes, const std::string& file) {
  CDT_REQUIRE(bytes.size() >= kLengthBytes, file,
              ": expected a safetensors file, which starts with ", kLengthBytes,
              " bytes of header length, but it has ", bytes.size(), " bytes");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  CDT_REQUIRE(length <= kLongestHeader && length <= bytes.size() - kLengthBytes, file,
              ": expected a safetensors header within the file and of at most ", kLongestHeader,
              " bytes, but its length is ", length, " in a file of ", bytes.size(), " bytes");
  const std::string_view text = bytes.substr(kLengthBytes, length);
  const std::string_view data = bytes.substr(kLengthBytes + length);

  SafeTensors content;
  std::vector<Record> records;
  constexpr int kDeepest = 3;  // {"name": {"shape": [
  CDT_REQUIRE(text.starts_with('{'), file,
              ": expected a safetensors header, which starts with '{', but it does not");
  const JsonValue header = parse_json(text, file + ": the safetensors header", kDeepest);
  for (const auto& [name, value] : header.raw().items()) {
    if (name == kMetadata) {
      content.metadata = read_metadata(header[name]);
    } else if (auto record = sound_record(name, value)) {
      records.push_back(std::move(*record));
    } else {
      records.push_back(read_record(name, header[name], file));
    }
  }
  require_tiling(records, static_cast<int64_t>(data.size()), file);
  for (const Record& record : records) {
    content.tensors[record.name] = read_tensor(record, data, file);
  }
  return content;
}

namespace {

/// Calls `take` with the parts of such a file in order; they are valid during the call only.
template <class Function>
auto with_parts(const SafeTensors& content, const std::string& file, Function take) {
  struct Piece {
    std::string name;
    std::string_view dtype;
    torch::Tensor values;
  };
  std::vector<Piece> pieces;
  for (const auto& [name, tensor] : content.tensors) {
    const std::string where = c10::str(file, ": tensor ", excerpt(name), ": ");
    CDT_REQUIRE(name != kMetadata, where, "expected another name, because this one is reserved");
    CDT_REQUIRE(tensor.defined(), where, "expected a tensor to save, got an undefined one");
    CDT_REQUIRE(tensor.layout() == torch::kStrided && !tensor.is_meta(), where,
                "expected a dense tensor to save, got layout ", tensor.layout(), " on ",
                tensor.device());
    const auto dtype =
        std::find_if(kDtypes.begin(), kDtypes.end(),
                     [type = tensor.scalar_type()](const Dtype& d) { return d.type == type; });
    CDT_REQUIRE(dtype != kDtypes.end(), where, "expected a dtype among ", dtype_names(), ", got ",
                tensor.scalar_type());
    pieces.push_back(
        {name, dtype->name, tensor.detach().to(torch::kCPU).resolve_neg().contiguous()});
  }
  // Wide dtypes first, so that all tensors are aligned; the map has already sorted the names.
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.values.element_size() > b.values.element_size();
  });

  // Appends members directly: inserting by name would search all earlier ones.
  auto header = nlohmann::ordered_json::object();
  auto& members = header.get_ref<nlohmann::ordered_json::object_t&>();
  if (!content.metadata.empty()) members.emplace_back(kMetadata, content.metadata);
  std::vector<std::string_view> parts(1);
  size_t offset = 0;
  for (const Piece& piece : pieces) {
    const size_t end = offset + piece.values.nbytes();
    members.emplace_back(piece.name, nlohmann::ordered_json{{"dtype", piece.dtype},
                                                            {"shape", piece.values.sizes().vec()},
                                                            {"data_offsets", {offset, end}}});
    parts.emplace_back(static_cast<const char*>(piece.values.data_ptr()), end - offset);
    offset = end;
  }
  std::string text = dump_exactly(header, file + ": the safetensors header");
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  CDT_REQUIRE(length <= kLongestHeader, file, ": expected a header of at most ", kLongestHeader,
              " bytes, but names and metadata make it ", length);
  text.insert(0, reinterpret_cast<const char*>(&length), kLengthBytes);
  parts[0] = text;
  return take(parts);
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, const SafeTensors& content) {
  with_parts(content, path.string(), [&](const std::vector<std::string_view>& parts) {
    write_file_atomically(path, parts);
  });
}

std::string dump_safetensors(const SafeTensors& content, const std::string& file) {
  return with_parts(content, file, [](const std::vector<std::string_view>& parts) {
    std::string bytes;
    for (const std::string_view part : parts) bytes += part;
    return bytes;
  });
}

}  // namespace cdt
