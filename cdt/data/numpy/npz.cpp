/// Archives are untrusted: each offset and size is checked against the available bytes before use.
#include "cdt/data/numpy/npz.h"

#include <torch/types.h>
#include <zlib.h>

#include <algorithm>

#include "cdt/core/error.h"
#include "cdt/core/io/file.h"
#include "cdt/core/io/inflate.h"
#include "cdt/core/machine/memory.h"
#include "cdt/data/table.h"

namespace cdt::data {
namespace {

constexpr std::string_view kLocalMark("PK\x03\x04", 4), kEntryMark("PK\x01\x02", 4),
    kEndMark("PK\x05\x06", 4), kEnd64Mark("PK\x06\x06", 4), kLocator64Mark("PK\x06\x07", 4);
constexpr size_t kLocalSize = 30, kEntrySize = 46, kEndSize = 22, kEnd64Size = 56,
                 kLocator64Size = 20;
constexpr uint64_t kIn64 = 0xffffffff;  // the true value is in a 64-bit field
constexpr unsigned kStored = 0, kDeflated = 8, kEncrypted = 1;
constexpr uint64_t kInflationOfNothing = 64;
constexpr std::string_view kSuffix = ".npy";

uint64_t little_endian(std::string_view bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// Splits bytes into pieces within zlib's limit.
template <class Use>
void in_pieces(std::string_view bytes, Use use) {
  constexpr size_t kPiece = size_t{1} << 30;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kPiece, bytes.size()))) {
    use(bytes.substr(0, kPiece));
  }
}

uint64_t crc_of(std::string_view bytes) {
  uLong crc = crc32(0, nullptr, 0);
  in_pieces(bytes, [&](std::string_view piece) {
    crc = crc32(crc, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
  });
  return crc;
}

}  // namespace

Bytes map_file(const std::string& path) {
  std::error_code failed;
  const bool regular = std::filesystem::is_regular_file(path, failed);
  const auto size = regular ? std::filesystem::file_size(path, failed) : 0;
  if (regular && !failed && size > 0) {
    try {
      const auto tensor = torch::from_file(path, /*shared=*/false, static_cast<int64_t>(size),
                                           torch::TensorOptions().dtype(torch::kUInt8));
      return {std::make_shared<torch::Tensor>(tensor),
              {reinterpret_cast<const char*>(tensor.data_ptr<uint8_t>()), size}};
    } catch (const c10::Error&) {  // read_file reports why, or succeeds
    }
  }
  const auto text = std::make_shared<const std::string>(read_file(path));
  return {text, *text};
}

Npz::Npz(Bytes archive, std::string file) : archive_(std::move(archive)), file_(std::move(file)) {
  const std::string_view bytes = archive_.view;
  CDT_REQUIRE(bytes.starts_with("PK"), file_, ": expected an .npz archive, which starts with PK, ",
              bytes.empty() ? "but it is empty" : "but it does not");
  // A comment may follow the end record.
  const size_t end = bytes.rfind(kEndMark);
  CDT_REQUIRE(end != std::string_view::npos && bytes.size() - end >= kEndSize, file_,
              ": expected the directory of an .npz archive at its end, but it has none; is the "
              "file cut off?");
  uint64_t count = little_endian(bytes, end + 10, 2), length = little_endian(bytes, end + 12, 4),
           at = little_endian(bytes, end + 16, 4);
  uint64_t parts = little_endian(bytes, end + 4, 2) | little_endian(bytes, end + 6, 2);
  if (end >= kLocator64Size && bytes.substr(end - kLocator64Size).starts_with(kLocator64Mark)) {
    const uint64_t place = little_endian(bytes, end - kLocator64Size + 8, 8);
    CDT_REQUIRE(place <= bytes.size() && bytes.size() - place >= kEnd64Size &&
                    bytes.substr(place).starts_with(kEnd64Mark),
                file_,
                ": expected a second end record where the .npz archive says, got "
                "none");
    count = little_endian(bytes, place + 32, 8);
    length = little_endian(bytes, place + 40, 8);
    at = little_endian(bytes, place + 48, 8);
    parts = 0;
  }
  CDT_REQUIRE(parts == 0, file_, ": expected an .npz archive in one file, but it is in parts");
  CDT_REQUIRE(at <= end && length <= end - at && count <= length / kEntrySize, file_,
              ": expected a directory of ", count, " entries in ", length, " bytes from byte ", at,
              ", as the .npz archive says, but it has ", bytes.size(), " bytes");
  std::string_view rest = bytes.substr(at, length);
  for (uint64_t i = 0; i < count; ++i) {
    const auto refuse_entry = [&] {
      throw InvalidArgument(c10::str(file_, ": entry ", i + 1, " of ", count,
                                     " in the directory of the .npz archive is damaged"));
    };
    if (rest.size() < kEntrySize || !rest.starts_with(kEntryMark)) refuse_entry();
    const size_t name = little_endian(rest, 28, 2), extra = little_endian(rest, 30, 2),
                 comment = little_endian(rest, 32, 2);
    if (rest.size() - kEntrySize < name + extra + comment) refuse_entry();
    entries_.push_back(
        read_entry(rest, rest.substr(kEntrySize, name), rest.substr(kEntrySize + name, extra)));
    rest.remove_prefix(kEntrySize + name + extra + comment);
  }
}

Npz::Entry Npz::read_entry(std::string_view record, std::string_view name,
                           std::string_view extra) const {
  Entry entry;
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  entry.name = name;
  entry.flags = static_cast<unsigned>(little_endian(record, 8, 2));
  entry.method = static_cast<unsigned>(little_endian(record, 10, 2));
  entry.crc = little_endian(record, 16, 4);
  entry.packed = little_endian(record, 20, 4);
  entry.size = little_endian(record, 24, 4);
  entry.offset = little_endian(record, 42, 4);
  while (extra.size() >= 4) {
    const uint64_t kind = little_endian(extra, 0, 2);
    const size_t length = little_endian(extra, 2, 2);
    if (extra.size() - 4 < length) break;
    if (kind == 1) {  // ZIP64: values that did not fit, in this order
      std::string_view wide = extra.substr(4, length);
      for (uint64_t* value : {&entry.size, &entry.packed, &entry.offset}) {
        if (*value != kIn64 || wide.size() < 8) continue;
        *value = little_endian(wide, 0, 8);
        wide.remove_prefix(8);
      }
    }
    extra.remove_prefix(4 + length);
  }
  return entry;
}

std::vector<std::string> Npz::names() const {
  std::vector<std::string> found;
  for (const Entry& entry : entries_) found.push_back(entry.name);
  return found;
}

const Npz::Entry* Npz::find(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::string_view Npz::packed_bytes(const Entry& entry) const {
  const std::string_view bytes = archive_.view;
  const bool there = entry.offset <= bytes.size() && bytes.size() - entry.offset >= kLocalSize &&
                     bytes.substr(entry.offset).starts_with(kLocalMark);
  CDT_REQUIRE(there, file_, ": array ", in_quotes(entry.name),
              " does not lie where the .npz archive says");
  const size_t head = kLocalSize + little_endian(bytes, entry.offset + 26, 2) +
                      little_endian(bytes, entry.offset + 28, 2);
  const size_t left = bytes.size() - entry.offset;
  CDT_REQUIRE(head <= left && entry.packed <= left - head, file_, ": array ", in_quotes(entry.name),
              " has ", entry.packed, " bytes, as the .npz archive says, but the file ends before");
  return bytes.substr(entry.offset + head, entry.packed);
}

Bytes Npz::inflate(const Entry& entry, std::string_view packed) const {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(c10::str(file_, ": array ", in_quotes(entry.name), " is damaged: ", why));
  };
  if (entry.size / kMostInflation > packed.size() + kInflationOfNothing) {
    refuse(c10::str(packed.size(), " bytes cannot unpack to ", entry.size));
  }
  require_memory(static_cast<double>(entry.size),
                 c10::str(file_, ": array ", in_quotes(entry.name)));
  Inflater inflater(packed, Inflater::Packing::kDeflate,
                    c10::str(file_, ": array ", in_quotes(entry.name)));
  const auto memory = std::make_shared<std::vector<char>>(entry.size);
  char beyond = 0;
  if (inflater.read(memory->data(), entry.size) < entry.size || inflater.read(&beyond, 1) > 0) {
    refuse(c10::str("it unpacks to more or fewer than ", entry.size, " bytes"));
  }
  return {memory, {memory->data(), memory->size()}};
}

Bytes Npz::array(const std::string& name) const {
  const Entry* entry = find(name);
  CDT_REQUIRE(entry != nullptr, file_, ": expected an array ", in_quotes(name),
              ", but the arrays are ", list_names(names()), "; FILE.npz:NAME takes another");
  CDT_REQUIRE((entry->flags & kEncrypted) == 0, file_, ": array ", in_quotes(name),
              " is encrypted");
  CDT_REQUIRE(entry->method == kStored || entry->method == kDeflated, file_, ": array ",
              in_quotes(name), ": expected a stored or deflated array, but it is packed by method ",
              entry->method);
  const std::string_view packed = packed_bytes(*entry);
  CDT_REQUIRE(entry->method == kDeflated || entry->packed == entry->size, file_, ": array ",
              in_quotes(name), " is stored in ", entry->packed, " bytes, but has ", entry->size);
  const Bytes found =
      entry->method == kStored ? Bytes{archive_.memory, packed} : inflate(*entry, packed);
  CDT_REQUIRE(crc_of(found.view) == entry->crc, file_, ": array ", in_quotes(name),
              " is damaged: its checksum is not the one of the .npz archive");
  return found;
}

}  // namespace cdt::data
