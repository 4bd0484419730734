/// safetensors files: round trips, the format's exact bytes, and files that lie.
#include "cdt/core/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <string>
#include <vector>

#include "cdt/core/error.h"
#include "cdt/core/io/file.h"
#include "support/device.h"
#include "support/temp_folder.h"

namespace {

using cdt::InvalidArgument;
using cdt::IoError;
using cdt::load_safetensors;
using cdt::SafeTensors;
using cdt::save_safetensors;
using cdt::test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::string_literals;

/// A small file, unsynced: the loops below write thousands.
std::filesystem::path put_safetensors(const TempFolder& folder, const std::string& bytes) {
  auto path = folder / "a.safetensors";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string length_of(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

std::string file_of(const std::string& header, const std::string& data = "") {
  return length_of(header.size()) + header + data;
}

void expect_safetensors_refused(const TempFolder& folder, const std::string& bytes,
                                const std::vector<std::string>& parts) {
  const auto path = put_safetensors(folder, bytes);
  try {
    load_safetensors(path);
    ADD_FAILURE() << "loaded; expected a refusal with \"" << parts.front() << "\"";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    for (const auto& part : parts) EXPECT_THAT(error.what(), HasSubstr(part));
    EXPECT_LT(std::string(error.what()).size(), 600u);
  }
}

constexpr auto kDtypes = {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16,
                          torch::kInt64,   torch::kInt32,   torch::kInt16,   torch::kInt8,
                          torch::kUInt8,   torch::kBool};

SafeTensors every_kind() {
  SafeTensors content;
  for (const auto dtype : kDtypes) {
    const std::string name = c10::toString(dtype);
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{}, {3}, {0}, {2, 3}, {2, 0, 2}, {1, 2, 3, 2}}) {
      content.tensors[c10::str(name, c10::IntArrayRef(shape))] =
          (torch::randn(shape) * 50).abs().to(dtype);
    }
  }
  content.metadata = {{"format", "pt"}, {"note", "line\nbreak, \"quotes\", é, 漢"}, {"", ""}};
  return content;
}

TEST(Safetensors, RoundTripsEveryDtypeAndRank) {
  const TempFolder folder;
  const SafeTensors saved = every_kind();
  save_safetensors(folder / "a", saved);
  EXPECT_EQ(cdt::read_file(folder / "a"), cdt::dump_safetensors(saved, "a"));
  const SafeTensors loaded = load_safetensors(folder / "a");
  EXPECT_EQ(loaded.metadata, saved.metadata);
  ASSERT_EQ(loaded.tensors.size(), saved.tensors.size());
  for (const auto& [name, tensor] : saved.tensors) {
    SCOPED_TRACE(name);
    ASSERT_EQ(loaded.tensors.count(name), 1u);
    EXPECT_EQ(loaded.tensors.at(name).scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(loaded.tensors.at(name).is_contiguous());
    EXPECT_TRUE(torch::equal(loaded.tensors.at(name), tensor));
  }
}

TEST(Safetensors, RoundTripsNothing) {
  const TempFolder folder;
  save_safetensors(folder / "a", {});
  EXPECT_EQ(cdt::read_file(folder / "a"), file_of("{}      "));
  const SafeTensors loaded = load_safetensors(folder / "a");
  EXPECT_TRUE(loaded.tensors.empty());
  EXPECT_TRUE(loaded.metadata.empty());
}

/// In half a second; with a search for the place of each name it took eleven.
TEST(Safetensors, RoundTripsManyTensors) {
  const TempFolder folder;
  SafeTensors content;
  const auto value = torch::ones({1});
  constexpr int kMany = 50'000;
  for (int i = 0; i < kMany; ++i) content.tensors[c10::str("layers.", i, ".weight")] = value;
  save_safetensors(folder / "a", content);
  const SafeTensors loaded = load_safetensors(folder / "a");
  ASSERT_EQ(loaded.tensors.size(), content.tensors.size());
  EXPECT_TRUE(torch::equal(loaded.tensors.at("layers.47777.weight"), value));
}

TEST(Safetensors, SavesWhatTheCallerSeesOfAView) {
  const TempFolder folder;
  const auto base = torch::randn({4, 6}, torch::kFloat64).requires_grad_();
  const auto negated = at::_neg_view(base.detach());  // Contiguous, its sign only promised.
  save_safetensors(folder / "a",
                   {{{"t", base.t()}, {"s", base.slice(1, 1, 6, 2)}, {"n", negated}}, {}});
  const auto loaded = load_safetensors(folder / "a").tensors;
  EXPECT_TRUE(torch::equal(loaded.at("t"), base.t()));
  EXPECT_TRUE(torch::equal(loaded.at("s"), base.slice(1, 1, 6, 2)));
  EXPECT_TRUE(torch::equal(loaded.at("n"), -base));
}

TEST(Safetensors, WritesWideDtypesFirstThenByName) {
  const TempFolder folder;
  SafeTensors content;
  content.tensors["a"] = torch::tensor({true, false});
  content.tensors["z"] = torch::tensor({1.5f});
  content.tensors["b\"é"] = torch::tensor(int64_t{-2});
  content.tensors["c"] = torch::tensor({1, 2, 3}, torch::kUInt8).view({3, 1});
  content.tensors["y"] = torch::tensor({2.0f});
  content.metadata = {{"k", "v"}};
  save_safetensors(folder / "a", content);
  const std::string header = R"({"__metadata__":{"k":"v"},)"
                             R"("b\"é":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                             R"("y":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},)"
                             R"("z":{"dtype":"F32","shape":[1],"data_offsets":[12,16]},)"
                             R"("a":{"dtype":"BOOL","shape":[2],"data_offsets":[16,18]},)"
                             R"("c":{"dtype":"U8","shape":[3,1],"data_offsets":[18,21]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(
      cdt::read_file(folder / "a"),
      file_of(header + padding,
              "\xfe\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00@\x00\x00\xc0?\x01\x00\x01\x02\x03"s));
}

TEST(Safetensors, PadsTheHeaderWhateverItsLength) {
  const TempFolder folder;
  for (size_t length = 0; length < 16; ++length) {
    save_safetensors(folder / "a", {{{std::string(length, 'n'), torch::ones({1})}}, {}});
    EXPECT_EQ(cdt::read_file(folder / "a").size() % 8, 4u);  // One float32 of data.
    EXPECT_EQ(load_safetensors(folder / "a").tensors.begin()->first.size(), length);
  }
}

TEST(Safetensors, ReadsAnyOrderAndAlignment) {
  const TempFolder folder;
  // The float64 begins at an odd address; records are not in the order of their data; the header is
  // spread over lines.
  const auto loaded = load_safetensors(put_safetensors(
      folder, file_of("{\n\"d\": {\"shape\": [1], \"data_offsets\": [1, 9], \"dtype\": \"F64\"},\n"
                      "\"empty\": {\"dtype\": \"I8\", \"shape\": [0, 7], \"data_offsets\": [1, 1]},"
                      "\"b\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}}  ",
                      "\x07\x00\x00\x00\x00\x00\x00\xf8?"s)));
  EXPECT_TRUE(torch::equal(loaded.tensors.at("d"), torch::tensor({1.5}, torch::kFloat64)));
  EXPECT_TRUE(torch::equal(loaded.tensors.at("b"), torch::tensor({7}, torch::kUInt8)));
  EXPECT_EQ(loaded.tensors.at("empty").sizes(), (std::vector<int64_t>{0, 7}));
}

TEST(Safetensors, RefusesHeadersThatAreNotTheFormats) {
  const TempFolder folder;
  const std::string good = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "starts with '{'"},
      {"[]", "starts with '{'"},
      {" {}", "starts with '{'"},
      {"null", "starts with '{'"},
      {"{", "malformed at line 1, column 2"},
      {"{}{}", "malformed at line 1, column 3"},
      {"{}\0x"s, "a NUL byte at line 1, column 3"},
      {"{\"\xff\":1}", "malformed at line 1, column 3"},
      {"{\"a\":{\"dtype\":\"U8\"", "malformed"},
      {R"({"a":{"dtype":"U8","shape":[1e999],"data_offsets":[0,1]}})", "too large"},
      {R"({"a":1})", "expected a record of dtype, shape and data_offsets, got 1"},
      {R"({"a":{}})", "expected a record"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", "expected a record"},
      {"{\"a\":{" + good + ",\"x\":1}}", "expected a record"},
      {"{\"a\":{" + good + "},\"a\":{" + good + "}}", "got \"a\" twice"},
      {"{\"a\":{" + good + ",\"shape\":[1]}}", "got \"shape\" twice"},
      {R"({"__metadata__":{"k":"v","k":"w"}})", "got \"k\" twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "got \"__metadata__\" twice"},
      {R"({"__metadata__":{"k":1}})", "__metadata__.k: expected text, got 1"},
      {R"({"__metadata__":["k"]})", "__metadata__: expected an object, got [\"k\"]"},
      {R"({"__metadata__":null})", "__metadata__: expected an object, got nothing"},
      {R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})",
       "expected a dtype among F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL, got \"F8\""},
      {R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", "expected a dtype"},
      {R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})",
       "a.shape: expected a list of whole numbers, got 1"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "got -1"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "got 1.0"},
      {R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", "got \"1\""},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})",
       "a.shape[0]: expected a whole number, 0 or above, got 9223372036854775808"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})",
       "a.data_offsets: expected a list of 2 whole numbers"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})",
       "a.data_offsets: expected a list of 2 whole numbers"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":{"0":0,"1":1}}})",
       "a.data_offsets: expected a list of 2 whole numbers"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,true]}})", "got true"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,0]}})",
       "got 18446744073709551615"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[[0],1]}})", "nests deeper"},
  };
  for (const auto& [header, part] : cases) {
    SCOPED_TRACE(header);
    expect_safetensors_refused(folder, file_of(header, "\x01"), {part});
  }
}

TEST(Safetensors, TheSameNameMayComeInDifferentRecords) {
  const TempFolder folder;
  const auto loaded = load_safetensors(
      put_safetensors(folder, file_of(R"({"__metadata__":{"a":"b","dtype":"x"},)"
                                      R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                      R"("dtype":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                      "ab")));
  EXPECT_EQ(loaded.tensors.size(), 2u);
}

TEST(Safetensors, RefusesOffsetsThatLie) {
  const TempFolder folder;
  const auto record = [](const std::string& name, const std::string& shape,
                         const std::string& span) {
    return "\"" + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + span +
           "}";
  };
  const std::string twelve(12, 'x');
  expect_safetensors_refused(
      folder, file_of("{" + record("w", "[2]", "[0,4]") + "}", "1234"),
      {"tensor \"w\"", "expected data_offsets that span 8 bytes for shape [2] of F32",
       "got [0,4]"});
  expect_safetensors_refused(folder, file_of("{" + record("w", "[1]", "[4,0]") + "}", "1234"),
                             {"span 4 bytes"});
  expect_safetensors_refused(folder, file_of("{" + record("w", "[0]", "[4,0]") + "}", "1234"),
                             {"span 0 bytes"});
  expect_safetensors_refused(
      folder, file_of("{" + record("w", "[1]", "[0,4]") + "}", "123"),
      {"tensor \"w\"", "within the file's 3 bytes of data, but it ends at 4"});
  expect_safetensors_refused(folder, file_of("{" + record("w", "[1]", "[0,4]") + "}", "12345"),
                             {"expected 4 bytes of data, as the tensors need, got 5"});
  expect_safetensors_refused(folder, file_of("{}", "x"), {"expected 0 bytes of data"});
  expect_safetensors_refused(folder, file_of("{" + record("w", "[1]", "[4,8]") + "}", "12345678"),
                             {"tensor \"w\"", "begin at byte 0", "leaves a hole"});
  expect_safetensors_refused(
      folder,
      file_of("{" + record("v", "[1]", "[0,4]") + "," + record("w", "[1]", "[8,12]") + "}", twelve),
      {"tensor \"w\"", "begin at byte 4", "begins at 8", "leaves a hole"});
  expect_safetensors_refused(
      folder,
      file_of("{" + record("v", "[2]", "[0,8]") + "," + record("w", "[2]", "[4,12]") + "}", twelve),
      {"tensor \"w\"", "begin at byte 8", "begins at 4", "overlaps"});
  expect_safetensors_refused(
      folder,
      file_of("{" + record("v", "[3]", "[0,12]") + "," + record("w", "[3]", "[0,12]") + "}",
              twelve),
      {"tensor \"w\"", "overlaps"});
  expect_safetensors_refused(
      folder,
      file_of("{" + record("v", "[3]", "[0,12]") + "," + record("w", "[0]", "[4,4]") + "}", twelve),
      {"tensor \"w\"", "overlaps"});
}

TEST(Safetensors, RefusesSizesThatOverflowBeforeItAllocates) {
  const TempFolder folder;
  for (const std::string shape : {
           "[9223372036854775807]",       // Bytes overflow.
           "[4294967296,4294967296]",     // The product wraps to zero.
           "[4294967296,4294967296,0]",   // Strides overflow though there is no data.
           "[0,9223372036854775807,16]",  //
           "[4611686018427387904,4]",     //
       }) {
    SCOPED_TRACE(shape);
    expect_safetensors_refused(
        folder, file_of(R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,0]}})"),
        {"tensor \"w\"", "63 bits"});
  }
  expect_safetensors_refused(folder,
                             file_of(R"({"w":{"dtype":"U8","shape":[4000000000000],)"
                                     R"("data_offsets":[0,4000000000000]}})"),
                             {"ends at 4000000000000"});
  expect_safetensors_refused(folder,
                             file_of(R"({"w":{"dtype":"U8","shape":[9223372036854775807],)"
                                     R"("data_offsets":[0,9223372036854775807]}})"),
                             {"ends at 9223372036854775807"});
}

TEST(Safetensors, RefusesLengthsThatLie) {
  const TempFolder folder;
  expect_safetensors_refused(folder, "", {"it has 0 bytes"});
  expect_safetensors_refused(folder, "1234567", {"it has 7 bytes"});
  expect_safetensors_refused(folder, length_of(3) + "{}",
                             {"its length is 3 in a file of 10 bytes"});
  for (const uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0},
                                ~uint64_t{0} - 7, ~uint64_t{0} - 8}) {
    expect_safetensors_refused(folder, length_of(length) + "{}", {std::to_string(length)});
  }
  // Even where the file does have the bytes. (A sparse one: no disk is used.)
  const auto path = put_safetensors(folder, length_of(100'000'001) + "{}");
  std::filesystem::resize_file(path, 100'000'100);
  EXPECT_THAT([&] { load_safetensors(path); },
              ThrowsMessage<InvalidArgument>(HasSubstr("at most 100000000 bytes")));
}

TEST(Safetensors, RefusesDeepNestingAndLongNamesBriefly) {
  const TempFolder folder;
  const std::string deep(2'000'000, '[');
  expect_safetensors_refused(folder, file_of("{\"a\":" + deep), {"nests deeper"});
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_safetensors_refused(folder, file_of(objects), {"nests deeper"});
  expect_safetensors_refused(folder, file_of("{\"" + std::string(1'000'000, 'n') + "\":1}"),
                             {"nnn..."});
  expect_safetensors_refused(folder, file_of("{\"a\":\"" + std::string(1'000'000, 'n')),
                             {"malformed"});
}

TEST(Safetensors, RefusesBoolsThatAreNone) {
  const TempFolder folder;
  expect_safetensors_refused(
      folder,
      file_of(R"({"m":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", "\x01\x00\x02"s),
      {"tensor \"m\"", "byte 2 is 2"});
}

TEST(Safetensors, RefusesEveryTruncation) {
  const TempFolder folder;
  save_safetensors(folder / "whole",
                   {{{"w", torch::randn({2, 3})}, {"b", torch::randn({2})}}, {{"k", "v"}}});
  const std::string whole = cdt::read_file(folder / "whole");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(load_safetensors(put_safetensors(folder, whole.substr(0, length))),
                 InvalidArgument)
        << length;
  }
}

TEST(Safetensors, SurvivesEveryFlippedBitOfTheHeader) {
  const TempFolder folder;
  save_safetensors(folder / "whole",
                   {{{"w", torch::randn({2, 3})}, {"b", torch::randn({2})}}, {{"k", "v"}}});
  const std::string whole = cdt::read_file(folder / "whole");
  const size_t data = 8 * sizeof(float);
  for (size_t i = 0; i < whole.size() - data; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      try {
        size_t loaded = 0;
        for (const auto& [name, tensor] :
             load_safetensors(put_safetensors(folder, flipped)).tensors) {
          loaded += tensor.nbytes();
        }
        EXPECT_EQ(loaded, data) << "byte " << i << " bit " << bit;
      } catch (const InvalidArgument&) {
      }
    }
  }
}

TEST(Safetensors, TheSameContentGivesTheSameBytes) {
  const TempFolder folder;
  const SafeTensors content = every_kind();
  save_safetensors(folder / "a", content);
  save_safetensors(folder / "b", load_safetensors(folder / "a"));
  EXPECT_EQ(cdt::read_file(folder / "a"), cdt::read_file(folder / "b"));
}

TEST(Safetensors, RefusesToSaveWhatTheFormatCannotHold) {
  const TempFolder folder;
  const auto path = folder / "a";
  const auto save = [&](const std::string& name, const torch::Tensor& tensor) {
    return [=] { save_safetensors(path, {{{name, tensor}}, {}}); };
  };
  EXPECT_THAT(
      save("__metadata__", torch::ones({1})),
      ThrowsMessage<InvalidArgument>(AllOf(HasSubstr(path.string()), HasSubstr("reserved"))));
  EXPECT_THAT(save("w", {}), ThrowsMessage<InvalidArgument>(
                                 AllOf(HasSubstr("tensor \"w\""), HasSubstr("undefined"))));
  EXPECT_THAT(save("w", torch::zeros({1}, torch::kComplexFloat)),
              ThrowsMessage<InvalidArgument>(
                  AllOf(HasSubstr("expected a dtype among F64"), HasSubstr("ComplexFloat"))));
  EXPECT_THAT(save("w", torch::eye(2).to_sparse()),
              ThrowsMessage<InvalidArgument>(HasSubstr("Sparse")));
  EXPECT_THAT(save("\xff", torch::ones({1})), ThrowsMessage<InvalidArgument>(HasSubstr("UTF-8")));
  EXPECT_THAT(
      [&] {
        save_safetensors(path, {{}, {{"k", "\xff"}}});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("UTF-8")));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THAT([&] { save_safetensors(folder / "none" / "a", {}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("No such file or directory")));
  const std::string full = cdt::test::make_device(folder, "full");
  CDT_NEEDS_DEVICE(full);
  EXPECT_THAT([&] { save_safetensors(full, {}); },
              ThrowsMessage<IoError>(HasSubstr("No space left on device")));
}

}  // namespace
