/// .npy files: round trips, NumPy's own bytes, and files that lie.
#include "cdt/core/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "cdt/core/error.h"
#include "cdt/core/io/file.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/temp_folder.h"

namespace {

using cdt::InvalidArgument;
using cdt::IoError;
using cdt::load_npy;
using cdt::save_npy;
using cdt::test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;
using namespace std::string_literals;

using cdt::test::kInfinity;
using cdt::test::kNan;

/// A small file, unsynced: the loops below write thousands.
std::filesystem::path put_npy(const TempFolder& folder, const std::string& bytes) {
  auto path = folder / "a.npy";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

/// A file whose header is `dict`, not padded (the format recommends padding but does not demand
/// it).
std::string npy(const std::string& dict, const std::string& data, int version = 1) {
  std::string bytes = "\x93NUMPY"s + static_cast<char>(version) + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  }
  return bytes + dict + data;
}

std::string dict(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// Expects the file to be refused with a message that has these parts, the file's name among them.
void expect_npy_refused(const TempFolder& folder, const std::string& bytes,
                        const std::vector<std::string>& parts) {
  const auto path = put_npy(folder, bytes);
  try {
    load_npy(path);
    ADD_FAILURE() << "loaded; expected a refusal with \"" << parts.front() << "\"";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    for (const auto& part : parts) EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

const std::vector<std::vector<int64_t>> kShapes{
    {}, {1}, {5}, {0}, {3, 4}, {4, 1}, {0, 3}, {3, 0, 2}, {2, 3, 4}, {1, 1, 1}, {2, 3, 1, 5}};

TEST(Npy, RoundTripsEveryRankAndBothDtypes) {
  const TempFolder folder;
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    for (const auto& shape : kShapes) {
      SCOPED_TRACE(testing::Message() << dtype << " " << c10::IntArrayRef(shape));
      const auto saved = torch::randn(shape, dtype);
      save_npy(folder / "a.npy", saved);
      const auto loaded = load_npy(folder / "a.npy");
      EXPECT_EQ(loaded.scalar_type(), dtype);
      EXPECT_TRUE(loaded.is_contiguous());
      EXPECT_TRUE(torch::equal(loaded, saved));  // Also compares shapes.
    }
  }
}

TEST(Npy, SavesWhatTheCallerSeesOfAView) {
  const TempFolder folder;
  const auto base = torch::randn({4, 6}, torch::kFloat64).requires_grad_();
  const auto negated = at::_neg_view(base.detach());  // Contiguous, its sign only promised.
  for (const auto& view : {base.t(), base.slice(1, 1, 6, 2), base[2].expand({3, 6}), negated}) {
    save_npy(folder / "a.npy", view);
    EXPECT_TRUE(torch::equal(load_npy(folder / "a.npy"), view.detach().resolve_neg()));
  }
}

TEST(Npy, KeepsEveryBitOfSpecialValues) {
  const TempFolder folder;
  const auto saved =
      torch::tensor({-0.0, kNan, kInfinity, -kInfinity, 5e-324, 1.7e308}, torch::kFloat64);
  save_npy(folder / "a.npy", saved);
  EXPECT_TRUE(
      torch::equal(load_npy(folder / "a.npy").view(torch::kInt64), saved.view(torch::kInt64)));
}

TEST(Npy, WritesTheBytesThatNumpyWrites) {
  const TempFolder folder;
  save_npy(folder / "a.npy", torch::tensor({1.5f, -2.0f, 3.25f}));
  EXPECT_EQ(cdt::read_file(folder / "a.npy"),
            "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"s +
                std::string(60, ' ') + "\n\x00\x00\xc0?\x00\x00\x00\xc0\x00\x00P@"s);
  save_npy(folder / "a.npy", torch::tensor(7.5, torch::kFloat64));
  EXPECT_EQ(cdt::read_file(folder / "a.npy"),
            "\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (), }"s +
                std::string(62, ' ') + "\n\x00\x00\x00\x00\x00\x00\x1e@"s);
  save_npy(folder / "a.npy", torch::zeros({2, 0}, torch::kFloat64));
  EXPECT_THAT(cdt::read_file(folder / "a.npy"), HasSubstr("'shape': (2, 0), }"));
}

TEST(Npy, ReadsTheBytesThatNumpyWrote) {
  const TempFolder folder;
  // np.array([[1.5, -2.0, 3.25], [0.1, np.inf, -0.0]], order='F')
  const auto fortran = load_npy(put_npy(
      folder, "\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }"s +
                  std::string(59, ' ') +
                  "\n\x00\x00\x00\x00\x00\x00\xf8?\x9a\x99\x99\x99\x99\x99\xb9?"
                  "\x00\x00\x00\x00\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\xf0\x7f"
                  "\x00\x00\x00\x00\x00\x00\n@\x00\x00\x00\x00\x00\x00\x00\x80"s));
  EXPECT_TRUE(torch::equal(
      fortran, torch::tensor({{1.5, -2.0, 3.25}, {0.1, kInfinity, -0.0}}, torch::kFloat64)));
  // format.write_array(f, np.array([1.5]), version=(3, 0))
  const auto version_3 =
      load_npy(put_npy(folder,
                       "\x93NUMPY\x03\x00t\x00\x00\x00{'descr': '<f8', 'fortran_order': False, "s
                       "'shape': (1,), }" +
                           std::string(58, ' ') + "\n\x00\x00\x00\x00\x00\x00\xf8?"s));
  EXPECT_TRUE(torch::equal(version_3, torch::tensor({1.5}, torch::kFloat64)));
}

TEST(Npy, AlignsTheDataForEveryRank) {
  const TempFolder folder;
  for (int64_t rank = 0; rank <= 80; ++rank) {
    save_npy(folder / "a.npy", torch::zeros(std::vector<int64_t>(rank, 1)));
    const std::string bytes = cdt::read_file(folder / "a.npy");
    ASSERT_EQ(bytes.size() % 64, 4u) << rank;  // One float32 of data.
    ASSERT_EQ(bytes[bytes.size() - 5], '\n') << rank;
    ASSERT_EQ(load_npy(folder / "a.npy").dim(), rank);
  }
}

TEST(Npy, WritesVersionTwoWhenTheHeaderIsLong) {
  const TempFolder folder;
  const auto saved = torch::full(std::vector<int64_t>(25000, 1), 2.5, torch::kFloat64);
  save_npy(folder / "a.npy", saved);
  EXPECT_THAT(cdt::read_file(folder / "a.npy").substr(0, 8), StartsWith("\x93NUMPY\x02\x00"s));
  EXPECT_TRUE(torch::equal(load_npy(folder / "a.npy"), saved));
}

TEST(Npy, ReadsFortranOrderOfAnyRank) {
  const TempFolder folder;
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << c10::IntArrayRef(shape));
    const auto expected = torch::randn(shape, torch::kFloat64);
    std::string text = "(";
    for (const int64_t size : shape) text += std::to_string(size) + ",";
    // Entry (i, j, k, ...) lies at i + s0·(j + s1·(k + ...)).
    const auto flat = expected.flatten();
    std::vector<double> values(static_cast<size_t>(expected.numel()));
    for (int64_t entry = 0; entry < expected.numel(); ++entry) {
      int64_t rest = entry, position = 0;
      for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
        int64_t stride = 1;
        for (size_t e = 0; e < d; ++e) stride *= shape[e];
        position += rest % shape[d] * stride;
      }
      values[static_cast<size_t>(position)] = flat[entry].item<double>();
    }
    const auto loaded =
        load_npy(put_npy(folder, npy(dict("'<f8'", "True", text + ")"), raw(values))));
    EXPECT_TRUE(loaded.is_contiguous());
    EXPECT_TRUE(torch::equal(loaded, expected));
  }
}

TEST(Npy, ReadsFortranOrderOfAbsurdRank) {
  const TempFolder folder;
  std::string shape = "(2,";
  for (int i = 0; i < 15000; ++i) shape += "1,";
  const auto loaded = load_npy(
      put_npy(folder, npy(dict("'<f4'", "True", shape + "3)"), raw<float>({1, 2, 3, 4, 5, 6}))));
  EXPECT_EQ(loaded.dim(), 15002);
  EXPECT_TRUE(torch::equal(loaded.flatten(), torch::tensor({1.f, 3.f, 5.f, 2.f, 4.f, 6.f})));
}

TEST(Npy, ToleratesWhatPythonTolerates) {
  const TempFolder folder;
  const auto expected = torch::tensor({1.0, 2.0}, torch::kFloat64);
  for (const int version : {1, 2, 3}) {
    for (const std::string text : {
             "{'descr':'<f8','fortran_order':False,'shape':(2,)}",
             "{\"shape\": (2,), \"fortran_order\": False, \"descr\": \"<f8\"}",
             "{'descr': '<f8', 'fortran_order': False, 'shape': (2L,), }",
             " {\t'descr' :\n'<f8' , 'fortran_order' : True , 'shape' : ( 2 , ) , } \n\n",
         }) {
      SCOPED_TRACE(text);
      const auto path = put_npy(folder, npy(text, raw<double>({1, 2}), version));
      EXPECT_TRUE(torch::equal(load_npy(path), expected));
    }
  }
}

TEST(Npy, RefusesOtherDtypesAndSaysHowToConvert) {
  const TempFolder folder;
  for (const std::string descr : {"'>f4'", "'>f8'", "'<i8'", "'|b1'", "'<f2'", "'<c16'", "'f8'",
                                  "'<f16'", "''", "'|O'", "'<U3'", "[('x', '<f8')]"}) {
    SCOPED_TRACE(descr);
    const bool structured = descr[0] == '[';
    const std::string came =
        structured ? "a structured dtype" : "\"" + descr.substr(1, descr.size() - 2) + "\"";
    expect_npy_refused(folder, npy(dict(descr, "False", "(1,)"), std::string(8, '\0')),
                       {"expected float32 or float64, little endian", "got " + came,
                        structured        ? "a['field'].astype('<f8')"
                        : descr[2] == 'c' ? "complex numbers"
                                          : "a.astype('<f8')"});
  }
}

TEST(Npy, RefusesMalformedHeaders) {
  const TempFolder folder;
  const std::string data = raw<double>({1, 2});
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "expected '{'"},
      {"[]", "expected '{'"},
      {"{", "expected a quoted string in the .npy header, got its end"},
      {"{}", "expected the key 'descr' in the .npy header, but it is missing"},
      {"{'fortran_order': False, 'shape': (2,)}", "'descr'"},
      {"{'descr': '<f8', 'shape': (2,)}", "'fortran_order'"},
      {"{'descr': '<f8', 'fortran_order': False}", "'shape'"},
      {"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", "got it twice"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}", "got it twice"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), 'x': 1}", "got \"x\""},
      {"{'descr': '<f8' 'fortran_order': False, 'shape': (2,)}", "expected '}'"},
      {"{'descr': '<f8',, 'fortran_order': False, 'shape': (2,)}", "a quoted string"},
      {"{'descr' '<f8', 'fortran_order': False, 'shape': (2,)}", "expected ':'"},
      {"{'descr': '<f8", "both its quotes"},
      {"{'descr': 8, 'fortran_order': False, 'shape': (2,)}", "a quoted string"},
      {"{'descr': '<f8', 'fortran_order': 0, 'shape': (2,)}", "expected True or False"},
      {"{'descr': '<f8', 'fortran_order': 'False', 'shape': (2,)}", "expected True or False"},
      {"{'descr': '<f8', 'fortran_order': Falsely, 'shape': (2,)}", "expected '}'"},
      {dict("'<f8'", "False", "(2)"), "with a comma"},
      {dict("'<f8'", "False", "(,)"), "a size"},
      {dict("'<f8'", "False", "(2,,)"), "a size"},
      {dict("'<f8'", "False", "(2 1)"), "between sizes"},
      {dict("'<f8'", "False", "[2]"), "expected '('"},
      {dict("'<f8'", "False", "2"), "expected '('"},
      {dict("'<f8'", "False", "(2.0,)"), "between sizes"},
      {dict("'<f8'", "False", "(-2,)"), "a size, zero or above"},
      {dict("'<f8'", "False", "(9223372036854775808,)"), "fits 64 bits"},
      {dict("'<f8'", "False", "(2,") + std::string(8, ' '), "a size"},
      {dict("'<f8'", "False", "(2,)") + "x", "expected nothing after the dict"},
      {dict("'<f8'", "False", "(2,)") + "\0"s, "\\x00"},
  };
  for (const auto& [text, part] : cases) {
    SCOPED_TRACE(text);
    expect_npy_refused(folder, npy(text, data), {part});
  }
}

TEST(Npy, RefusesSizesThatOverflowBeforeItAllocates) {
  const TempFolder folder;
  for (const std::string shape : {
           "(9223372036854775807,)",        // Bytes overflow.
           "(4294967296, 4294967296)",      // The product wraps to zero.
           "(4294967296, 4294967296, 0)",   // Strides overflow though there is no data.
           "(0, 9223372036854775807, 16)",  //
           "(3037000500, 3037000500, 2)",   //
           "(2305843009213693953, 8)",      // The product wraps to eight.
       }) {
    SCOPED_TRACE(shape);
    for (const std::string order : {"True", "False"}) {
      expect_npy_refused(folder, npy(dict("'<f8'", order, shape), ""), {"63 bits"});
    }
  }
  // Countable, but the file does not have them.
  expect_npy_refused(folder, npy(dict("'<f8'", "False", "(1000000000, 1000000)"), "12345678"),
                     {"expected 8000000000000000 bytes", "got 8"});
}

TEST(Npy, RefusesDataOfTheWrongLength) {
  const TempFolder folder;
  const std::string header = dict("'<f8'", "False", "(3, 4)");
  expect_npy_refused(folder, npy(header, std::string(95, 'x')),
                     {"expected 96 bytes of data for shape [3, 4] of Double", "got 95"});
  expect_npy_refused(folder, npy(header, std::string(97, 'x')), {"got 97"});
  expect_npy_refused(folder, npy(header, ""), {"got 0"});
  expect_npy_refused(folder, npy(dict("'<f4'", "True", "(0, 2)"), "x"), {"expected 0 bytes"});
}

TEST(Npy, RefusesWhatIsNoNpyFile) {
  const TempFolder folder;
  expect_npy_refused(folder, "", {"expected a .npy file", "is empty"});
  expect_npy_refused(folder, "1.0,2.0,3.0\n", {"expected a .npy file", "starts with \"1.0,2.\""});
  expect_npy_refused(folder, "PK\x03\x04zipped", {"\"PK\\x03\\x04zi\""});
  expect_npy_refused(folder, "\x93NUMPY", {"version"});
  expect_npy_refused(folder, "\x93NUMPY\x04\x00\x00\x00{}"s, {"1.0, 2.0 or 3.0, got 4.0"});
  expect_npy_refused(folder, "\x93NUMPY\x00\x00\x00\x00{}"s, {"got 0.0"});
  expect_npy_refused(folder, "\x93NUMPY\x01\x01\x00\x00{}"s, {"got 1.1"});
  expect_npy_refused(folder, "\x93NUMPY\x01\x00\x10"s, {"length of the header in 2 bytes"});
  expect_npy_refused(folder, "\x93NUMPY\x01\x00\x10\x00{}"s, {"a header of 16 bytes", "after 2"});
  expect_npy_refused(folder, "\x93NUMPY\x02\x00\xff\xff\xff\xff{}"s,
                     {"a header of 4294967295 bytes"});
  EXPECT_THAT([&] { load_npy(folder / "none.npy"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("none.npy")));
  EXPECT_THAT([&] { load_npy(folder.path()); },
              ThrowsMessage<InvalidArgument>(HasSubstr("got a folder")));
}

TEST(Npy, RefusesEveryTruncation) {
  const TempFolder folder;
  save_npy(folder / "whole.npy", torch::randn({2, 3}));
  const std::string whole = cdt::read_file(folder / "whole.npy");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(load_npy(put_npy(folder, whole.substr(0, length))), InvalidArgument) << length;
  }
}

TEST(Npy, SurvivesEveryFlippedBitOfTheHeader) {
  const TempFolder folder;
  save_npy(folder / "whole.npy", torch::randn({2, 3}));
  const std::string whole = cdt::read_file(folder / "whole.npy");
  const size_t data = 6 * sizeof(float);
  for (size_t i = 0; i < whole.size() - data; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      try {
        EXPECT_EQ(load_npy(put_npy(folder, flipped)).nbytes(), data)
            << "byte " << i << " bit " << bit;
      } catch (const InvalidArgument&) {
      }
    }
  }
}

TEST(Npy, RefusesToSaveOtherTensors) {
  const TempFolder folder;
  const auto path = folder / "a.npy";
  for (const auto dtype :
       {torch::kInt64, torch::kBool, torch::kFloat16, torch::kBFloat16, torch::kComplexDouble}) {
    EXPECT_THAT([&] { save_npy(path, torch::zeros({2}, dtype)); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr(path.string()),
                                                     HasSubstr("float32 or float64"),
                                                     HasSubstr(c10::toString(dtype)))));
  }
  EXPECT_THAT([&] { save_npy(path, {}); }, ThrowsMessage<InvalidArgument>(HasSubstr("undefined")));
  EXPECT_THAT([&] { save_npy(path, torch::eye(2).to_sparse()); },
              ThrowsMessage<InvalidArgument>(HasSubstr("Sparse")));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THAT([&] { save_npy(folder / "none" / "a.npy", torch::zeros({2})); },
              ThrowsMessage<InvalidArgument>(HasSubstr("No such file or directory")));
  const std::string full = cdt::test::make_device(folder, "full");
  CDT_NEEDS_DEVICE(full);
  EXPECT_THAT([&] { save_npy(full, torch::zeros({2})); },
              ThrowsMessage<IoError>(HasSubstr("No space left on device")));
}

}  // namespace
