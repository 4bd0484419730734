/// Arrays in NumPy's .npz archives: a ZIP file with a .npy file per array, stored or deflated.
#pragma once

#include <cdt/core/error.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::data {

/// Bytes, and their owner.
struct Bytes {
  std::shared_ptr<const void> memory;
  std::string_view view;
};

/// The bytes of a file: mapped into memory, or read if that is not possible (a pipe).
/// @throws InvalidArgument, IoError as read_file.
Bytes map_file(const std::string& path);

class Npz {
 public:
  /// Reads the directory of the archive; messages call it `file`.
  /// @throws InvalidArgument if it is not a ZIP file, is damaged, or in several parts.
  Npz(Bytes archive, std::string file);

  /// Names of the arrays, without .npy, in the order of the archive.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return find(name) != nullptr; }
  /// The .npy file of this array: a view if it is stored, otherwise inflated into memory.
  /// @throws InvalidArgument if there is none (the message lists the arrays), it is encrypted, not
  ///   stored or deflated, or its size differs from the directory.
  Bytes array(const std::string& name) const;

 private:
  struct Entry {
    std::string name;
    unsigned flags = 0, method = 0;
    uint64_t crc = 0, packed = 0, size = 0, offset = 0;
  };

  const Entry* find(const std::string& name) const;
  Entry read_entry(std::string_view record, std::string_view name, std::string_view extra) const;
  std::string_view packed_bytes(const Entry& entry) const;
  Bytes inflate(const Entry& entry, std::string_view packed) const;

  Bytes archive_;
  std::string file_;
  std::vector<Entry> entries_;
};

}  // namespace cdt::data
