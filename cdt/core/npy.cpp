/// The .npy format: magic bytes, a version, a Python dict with dtype, order and shape, then data.
///
/// Files are untrusted, so each size is checked against the available bytes before anything is
/// allocated.
#include "cdt/core/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cdt/core/error.h"
#include "cdt/core/io/file.h"
#include "cdt/core/text/byte_count.h"
#include "cdt/core/text/text.h"

namespace cdt {
namespace {

static_assert(std::endian::native == std::endian::little, "files and memory share one byte order");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kNpyAlignment = 64;  // Alignment of the data, so that NumPy can map it.

/// At most forty bytes of a file, made printable.
std::string start_of(std::string_view bytes) {
  constexpr size_t kShown = 40;
  return "\"" + printable_name(bytes.substr(0, kShown)) + (bytes.size() > kShown ? "...\"" : "\"");
}

[[noreturn]] void refuse_dtype(const std::string& file, std::string_view came,
                               std::string_view array = "a") {
  const bool is_complex =
      came.find("c8") != std::string_view::npos || came.find("c16") != std::string_view::npos;
  const bool is_text = came.find("O") != std::string_view::npos ||
                       came.find("U") != std::string_view::npos ||
                       came.find("S") != std::string_view::npos;
  const std::string advice =
      is_complex ? ", complex numbers"
      : is_text  ? c10::str(", Python objects or text; convert them in numpy: ", array,
                            ".astype('<f8'), or names of classes: np.unique(", array,
                            ", return_inverse=True)[1]")
                 : c10::str("; convert it in numpy: ", array, ".astype('<f8')");
  throw InvalidArgument(c10::str(file, ": expected float32 or float64, little endian ",
                                 "('<f4' or '<f8'), got ", came, advice));
}

/// The dtype for a file's type, if LibTorch has it.
std::optional<torch::ScalarType> number_type(std::string_view descr) {
  constexpr std::pair<std::string_view, torch::ScalarType> kTypes[] = {
      {"<f4", torch::kFloat32}, {"<f8", torch::kFloat64}, {"<f2", torch::kFloat16},
      {"|i1", torch::kInt8},    {"<i2", torch::kInt16},   {"<i4", torch::kInt32},
      {"<i8", torch::kInt64},   {"|u1", torch::kUInt8},   {"|b1", torch::kBool},
  };
  for (const auto& [name, type] : kTypes) {
    if (name == descr) return type;
  }
  return std::nullopt;
}

bool is_usual_float(torch::ScalarType type) {
  return type == torch::kFloat32 || type == torch::kFloat64;
}

/// Parses the one Python literal that the format allows: a dict with the keys 'descr',
/// 'fortran_order' and 'shape', each once, in any order.
class HeaderParser {
 public:
  /// `floats`: accept only float32 and float64.
  HeaderParser(std::string_view text, const std::string& file, bool floats)
      : rest_(text), file_(file), floats_(floats) {}

  NpyLayout parse() {
    std::optional<torch::ScalarType> dtype;
    std::optional<bool> fortran_order;
    std::optional<std::vector<int64_t>> shape;
    expect("{");
    while (!accept("}")) {
      const std::string_view key = string();
      expect(":");
      if (key == "descr") {
        set(dtype, key, &HeaderParser::dtype);
      } else if (key == "fortran_order") {
        set(fortran_order, key, &HeaderParser::boolean);
      } else if (key == "shape") {
        set(shape, key, &HeaderParser::shape);
      } else {
        throw InvalidArgument(c10::str(file_,
                                       ": expected the keys 'descr', 'fortran_order' and 'shape' "
                                       "in the header, got ",
                                       start_of(key)));
      }
      if (!accept(",")) {
        expect("}");
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) fail("nothing after the dict");
    require_key(dtype.has_value(), "descr");
    require_key(fortran_order.has_value(), "fortran_order");
    require_key(shape.has_value(), "shape");
    return {*dtype, *fortran_order, *shape, 0};
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw InvalidArgument(c10::str(file_, ": expected ", expected, " in the .npy header, got ",
                                   rest_.empty() ? "its end" : start_of(rest_)));
  }

  void require_key(bool found, std::string_view key) const {
    CDT_REQUIRE(found, file_, ": expected the key '", key,
                "' in the .npy header, but it is missing");
  }

  template <typename T>
  void set(std::optional<T>& slot, std::string_view key, T (HeaderParser::*read)()) {
    CDT_REQUIRE(!slot, file_, ": expected the key '", key,
                "' once in the .npy header, got it twice");
    slot = (this->*read)();
  }

  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n\f"), rest_.size()));
  }

  bool accept(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail(c10::str("'", token, "'"));
  }

  std::string_view string() {
    skip_space();
    if (!rest_.starts_with('\'') && !rest_.starts_with('"')) fail("a quoted string");
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) fail("a string with both its quotes");
    const std::string_view content = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return content;
  }

  torch::ScalarType dtype() {
    skip_space();
    if (rest_.starts_with('[')) refuse_dtype(file_, "a structured dtype", "a['field']");
    const std::string_view descr = string();
    const auto type = number_type(descr);
    if (!type || (floats_ && !is_usual_float(*type))) refuse_dtype(file_, start_of(descr));
    return *type;
  }

  bool boolean() {
    if (accept("True")) return true;
    if (accept("False")) return false;
    fail("True or False");
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    bool comma = true;
    expect("(");
    while (!accept(")")) {
      if (!comma) fail("',' between sizes");
      sizes.push_back(size());
      comma = accept(",");
    }
    // In Python, (3) is a number and (3,) a tuple.
    if (sizes.size() == 1 && !comma) fail("a shape with a comma, as in (3,), before this");
    return sizes;
  }

  int64_t size() {
    skip_space();
    if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') {
      fail("a size, zero or above,");
    }
    int64_t value = 0;
    const auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (result.ec != std::errc()) fail("a size that fits 64 bits");
    rest_.remove_prefix(static_cast<size_t>(result.ptr - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // Python 2 wrote long integers like this.
    return value;
  }

  std::string_view rest_;
  const std::string& file_;
  bool floats_;
};

size_t little_endian(std::string_view bytes) {
  size_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// Splits off the header's text; `rest` then holds the data.
std::string_view take_header(std::string_view& rest, const std::string& file) {
  CDT_REQUIRE(rest.starts_with(kMagic), file, ": expected a .npy file, which starts with ",
              start_of(kMagic), ", but it ",
              rest.empty() ? "is empty" : "starts with " + start_of(rest.substr(0, kMagic.size())));
  rest.remove_prefix(kMagic.size());
  CDT_REQUIRE(rest.size() >= 2, file, ": expected a .npy version, but the file ends there");
  const int major = static_cast<unsigned char>(rest[0]);
  const int minor = static_cast<unsigned char>(rest[1]);
  CDT_REQUIRE(major >= 1 && major <= 3 && minor == 0, file,
              ": expected .npy version 1.0, 2.0 or 3.0, got ", major, ".", minor);
  rest.remove_prefix(2);
  const size_t width = major == 1 ? 2 : 4;
  CDT_REQUIRE(rest.size() >= width, file, ": expected the length of the header in ", width,
              " bytes, but the file ends after ", rest.size());
  const size_t length = little_endian(rest.substr(0, width));
  rest.remove_prefix(width);
  CDT_REQUIRE(length <= rest.size(), file, ": expected a header of ", length,
              " bytes, as its length says, but the file ends after ", rest.size());
  const std::string_view header = rest.substr(0, length);
  rest.remove_prefix(length);
  return header;
}

NpyLayout read_layout(std::string_view bytes, const std::string& file, bool floats) {
  std::string_view data = bytes;
  NpyLayout layout = HeaderParser(take_header(data, file), file, floats).parse();
  layout.offset = bytes.size() - data.size();
  const auto needed = static_cast<size_t>(byte_count(layout.dtype, layout.shape, file + ": "));
  CDT_REQUIRE(data.size() == needed, file, ": expected ", needed, " bytes of data for shape ",
              c10::IntArrayRef(layout.shape), " of ", layout.dtype, ", got ", data.size());
  return layout;
}

}  // namespace

torch::Tensor load_npy(const std::filesystem::path& path) {
  return parse_npy(read_file(path), path.string());
}

NpyLayout npy_layout(std::string_view bytes, const std::string& file) {
  return read_layout(bytes, file, /*floats=*/false);
}

torch::Tensor parse_npy(std::string_view bytes, const std::string& file) {
  const NpyLayout header = read_layout(bytes, file, /*floats=*/true);
  const std::string_view data = bytes.substr(header.offset);
  const size_t needed = data.size();
  const auto options = torch::TensorOptions().dtype(header.dtype).device(torch::kCPU);
  if (needed == 0) return torch::empty(header.shape, options);
  if (!header.fortran_order) {
    torch::Tensor tensor = torch::empty(header.shape, options);
    std::memcpy(tensor.data_ptr(), data.data(), needed);
    return tensor;
  }
  // Fortran order is C order with reversed dimensions. Dimensions of size one are irrelevant; the
  // others are at most 63, whatever rank the file claims.
  std::vector<int64_t> reversed = header.shape;
  std::erase(reversed, 1);
  std::reverse(reversed.begin(), reversed.end());
  std::vector<int64_t> permutation(reversed.size());
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  torch::Tensor tensor = torch::empty(reversed, options);
  std::memcpy(tensor.data_ptr(), data.data(), needed);
  return tensor.permute(permutation).contiguous().view(header.shape);
}

void save_npy(const std::filesystem::path& path, const torch::Tensor& tensor) {
  const std::string file = path.string();
  CDT_REQUIRE(tensor.defined(), file, ": expected a tensor to save, got an undefined one");
  CDT_REQUIRE(tensor.layout() == torch::kStrided && !tensor.is_meta(), file,
              ": expected a dense tensor to save, got layout ", tensor.layout(), " on ",
              tensor.device());
  CDT_REQUIRE(tensor.scalar_type() == torch::kFloat32 || tensor.scalar_type() == torch::kFloat64,
              file, ": expected a float32 or float64 tensor to save, got ", tensor.scalar_type());

  std::string text =
      c10::str("{'descr': '", tensor.scalar_type() == torch::kFloat32 ? "<f4" : "<f8",
               "', 'fortran_order': False, 'shape': (");
  const auto shape = tensor.sizes();
  for (size_t d = 0; d < shape.size(); ++d) text += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  text += shape.size() == 1 ? ",), }" : "), }";

  // Pads with spaces and a newline to the alignment of the data. Version 1.0 stores the header's
  // length in two bytes, 2.0 in four.
  size_t width = 2;
  const auto padded = [&] {
    const size_t before = kMagic.size() + 2 + width;
    return (before + text.size() + 1 + kNpyAlignment - 1) / kNpyAlignment * kNpyAlignment - before;
  };
  if (padded() > 65535) width = 4;
  const size_t length = padded();
  std::string header(kMagic);
  header += {static_cast<char>(width / 2), '\0'};
  for (size_t i = 0; i < width; ++i) header += static_cast<char>(length >> (8 * i) & 0xff);
  header += text + std::string(length - text.size() - 1, ' ') + "\n";

  const torch::Tensor values = tensor.detach().to(torch::kCPU).resolve_neg().contiguous();
  write_file_atomically(
      path, {header,
             {static_cast<const char*>(values.data_ptr()), static_cast<size_t>(values.nbytes())}});
}

}  // namespace cdt
