// Arrays of NumPy as tables: every dtype and order, archives that NumPy wrote, files that lie.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/npy.h>
#include <cdt/data/numpy/arrays.h>
#include <cdt/data/numpy/npz.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "support/temp_folder.h"

namespace cdt::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kStored = CDT_CORPUS "/npz/seed-stored";
constexpr const char* kCompressed = CDT_CORPUS "/npz/seed-compressed";

/// A .npy file of any dtype.
std::string npy_of(const std::string& descr, const std::string& shape, const std::string& data,
                   bool fortran = false) {
  const std::string dict = "{'descr': '" + descr +
                           "', 'fortran_order': " + (fortran ? "True" : "False") +
                           ", 'shape': " + shape + ", }";
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(dict.size() & 0xff);
  bytes += static_cast<char>(dict.size() >> 8);
  return bytes + dict + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class Arrays : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string put(const std::string& name, const std::string& bytes) const {
    write_file_atomically(folder_ / name, {bytes});
    return file(name);
  }
  void expect_refused(const std::string& inputs, const std::string& labels, const std::string& part,
                      const CsvOptions& options = {}) const {
    EXPECT_THAT([&] { read_arrays(inputs, labels, options); },
                ThrowsMessage<InvalidArgument>(HasSubstr(part)));
  }
  test::TempFolder folder_;
};

TEST_F(Arrays, EntriesAreThoseOfTheTensors) {
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({7, 3}), y = torch::randn({7, 2}, torch::kFloat64);
  save_npy(file("x.npy"), x);
  save_npy(file("y.npy"), y);
  const Table table = read_arrays(file("x.npy"), file("y.npy"));
  ASSERT_EQ(table.rows(), 7);
  ASSERT_EQ(table.columns.size(), 5U);
  for (int64_t j = 0; j < 5; ++j) {
    const Column& column = table.columns[static_cast<size_t>(j)];
    EXPECT_EQ(column.name, j < 3 ? "x" + std::to_string(j + 1) : "y" + std::to_string(j - 2));
    for (int64_t i = 0; i < 7; ++i) {
      const double wanted = j < 3 ? x[i][j].item<float>() : y[i][j - 3].item<double>();
      EXPECT_EQ(column.numbers[static_cast<size_t>(i)], wanted);
    }
  }
  EXPECT_THAT(label_columns(table), ElementsAre("y1", "y2"));
  EXPECT_THAT(table.lines, ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST_F(Arrays, EveryDtypeAndBothOrders) {
  const auto numbers = [&](const std::string& bytes) {
    const Table table = read_arrays(put("a.npy", bytes));
    std::vector<double> all;
    for (const Column& column : table.columns) {
      for (const double value : column.numbers) all.push_back(value);
    }
    return all;
  };
  EXPECT_THAT(numbers(npy_of("<f4", "(2, 2)", bytes_of<float>({1, -2, 3, 0.5F}))),
              ElementsAre(1, 3, -2, 0.5));
  EXPECT_THAT(numbers(npy_of("<f4", "(2, 2)", bytes_of<float>({1, -2, 3, 0.5F}), true)),
              ElementsAre(1, -2, 3, 0.5));
  EXPECT_THAT(numbers(npy_of("<f8", "(3,)", bytes_of<double>({1, 2, 3}))), ElementsAre(1, 2, 3));
  EXPECT_THAT(numbers(npy_of("<f2", "(2,)", bytes_of<uint16_t>({0x3c00, 0xc000}))),
              ElementsAre(1, -2));
  EXPECT_THAT(numbers(npy_of("|i1", "(2,)", bytes_of<int8_t>({-128, 127}))),
              ElementsAre(-128, 127));
  EXPECT_THAT(numbers(npy_of("<i2", "(2,)", bytes_of<int16_t>({-300, 300}))),
              ElementsAre(-300, 300));
  EXPECT_THAT(numbers(npy_of("<i4", "(2,)", bytes_of<int32_t>({-70000, 5}))),
              ElementsAre(-70000, 5));
  EXPECT_THAT(numbers(npy_of("<i8", "(2,)", bytes_of<int64_t>({int64_t{1} << 40, -1}))),
              ElementsAre(std::pow(2.0, 40), -1));
  EXPECT_THAT(numbers(npy_of("|u1", "(2,)", bytes_of<uint8_t>({0, 255}))), ElementsAre(0, 255));
  EXPECT_THAT(numbers(npy_of("|b1", "(2,)", bytes_of<uint8_t>({1, 0}))), ElementsAre(1, 0));
}

TEST_F(Arrays, ArchivesOfNumPy) {
  for (const char* archive : {kStored, kCompressed}) {
    SCOPED_TRACE(archive);
    const Table table = read_arrays(archive);
    ASSERT_EQ(table.columns.size(), 4U);
    for (size_t j = 0; j < 3; ++j) {
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(table.columns[j].numbers[i], static_cast<double>(3 * i + j) / 8);
      }
    }
    EXPECT_THAT(table.at("y").numbers.to_vector(), ElementsAre(1, 0, -2, 3));
  }
  // A named array has labels only where they are named, too.
  const std::string named = put("c.npz", read_file(kCompressed)) + ":more";
  EXPECT_EQ(archive_of(named), file("c.npz"));
  EXPECT_EQ(read_arrays(named).columns.size(), 20U);
  EXPECT_EQ(read_arrays(file("c.npz"), file("c.npz") + ":y").columns.size(), 4U);
  expect_refused(file("c.npz") + ":none", "", "the arrays are \"x\", \"y\", \"more\"");
}

TEST_F(Arrays, ADamagedArchiveIsRefusedOrTheSame) {
  for (const char* seed : {kStored, kCompressed}) {
    const std::string sound = read_file(seed);
    const Table wanted = read_arrays(seed);
    int refused = 0;
    for (size_t i = 0; i < sound.size(); ++i) {
      std::string bytes = sound;
      bytes[i] = static_cast<char>(bytes[i] ^ 0x15);
      SCOPED_TRACE(testing::Message() << seed << ", byte " << i);
      try {
        const Npz archive({std::make_shared<std::string>(bytes), bytes}, "a.npz");
        const Npz before({std::make_shared<std::string>(sound), sound}, "b.npz");
        EXPECT_EQ(archive.array("x").view, before.array("x").view);
      } catch (const InvalidArgument&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 100);
    for (size_t cut = 0; cut < sound.size(); ++cut) {
      const std::string bytes = sound.substr(0, cut);
      EXPECT_THROW(Npz({std::make_shared<std::string>(bytes), bytes}, "a.npz"), InvalidArgument);
    }
  }
}

TEST_F(Arrays, NanIsMissingAndInfinityRefused) {
  const float nan = std::nanf(""), infinity = HUGE_VALF;
  put("x.npy", npy_of("<f4", "(2, 3)", bytes_of<float>({1, nan, 3, 4, 5, 6})));
  const Table table = read_arrays(file("x.npy"));
  EXPECT_TRUE(table.at("x2").is_missing(0));
  EXPECT_FALSE(table.at("x2").is_missing(1));
  put("x.npy", npy_of("<f4", "(2, 3)", bytes_of<float>({1, 2, 3, 4, 5, infinity})));
  expect_refused(file("x.npy"), "", "got inf in row 2, column 3");
  put("x.npy", npy_of("<f4", "(2, 3)", bytes_of<float>({1, 2, 3, 4, 5, -infinity}), true));
  expect_refused(file("x.npy"), "", "got -inf in row 2, column 3");
}

TEST_F(Arrays, HaveNoMoreColumnsThanTables) {
  put("x.npy", npy_of("|b1", "(1, 1000001)", std::string(1'000'001, '\0')));
  expect_refused(file("x.npy"), "", "expected at most 1000000 columns");
}

TEST_F(Arrays, WhatIsNoTableIsRefused) {
  const std::string good = put("x.npy", npy_of("<f8", "(2, 1)", bytes_of<double>({1, 2})));
  const auto refused = [&](const std::string& bytes, const std::string& part) {
    expect_refused(put("bad.npy", bytes), "", part);
  };
  refused(npy_of("<f8", "(1, 1, 2)", bytes_of<double>({1, 2})),
          "expected inputs [rows, features], got shape [1, 1, 2]");
  refused(npy_of("<f8", "()", bytes_of<double>({1})), "got shape []");
  refused(npy_of("<f8", "(0, 2)", ""), "with entries");
  refused(npy_of("<f8", "(2, 2)", bytes_of<double>({1, 2})), "expected 32 bytes");
  refused(npy_of("|O", "(2,)", "12345678"), "Python objects or text");
  refused(npy_of("<U3", "(2,)", std::string(24, 'a')), "np.unique");
  refused(npy_of(">f8", "(1,)", "12345678"), "little endian");
  refused(npy_of("<c16", "(1,)", std::string(16, '\0')), "complex");
  refused("", "it is empty");
  refused("a,b\n1,2\n", "expected a .npy file");
  expect_refused(file("none.npy"), "", "none.npy");
  put("y.npy", npy_of("<f8", "(3,)", bytes_of<double>({1, 2, 3})));
  expect_refused(good, file("y.npy"), "expected labels of 2 rows");
  CsvOptions options;
  options.header = false;
  expect_refused(good, "", "no-header is for CSV files", options);
  options = {};
  options.drop = {"x2"};
  expect_refused(good, "", "expected a column \"x2\"", options);
}

TEST_F(Arrays, ColumnsAreDroppedKeptAndTakenAsText) {
  const std::string x =
      put("x.npy", npy_of("<f8", "(3, 3)", bytes_of<double>({1, 2, 3, 4, 2, NAN, 7, 10, -0.0})));
  CsvOptions options;
  options.drop = {"x1"};
  options.types = {{"x2", ColumnType::kText}, {"x3", ColumnType::kText}};
  const Table table = read_arrays(x, "", options);
  ASSERT_EQ(table.columns.size(), 2U);
  EXPECT_THAT(table.columns[0].categories, ElementsAre("10", "2"));
  EXPECT_THAT(table.columns[0].codes, ElementsAre(1, 1, 0));
  EXPECT_THAT(table.columns[1].categories, ElementsAre("0", "3"));
  EXPECT_TRUE(table.columns[1].is_missing(1));
  CsvOptions some;
  some.keep = {"x3", "y"};
  EXPECT_EQ(read_arrays(x, "", some).columns.size(), 1U);
}

TEST_F(Arrays, TheChecksumIsOfAllEntries) {
  const auto checksum = [&](const std::vector<double>& x, const std::string& shape, double y) {
    put("x.npy", npy_of("<f8", shape, bytes_of(x)));
    put("y.npy", npy_of("<f8", "(2,)", bytes_of<double>({y, 1})));
    return read_arrays(file("x.npy"), file("y.npy")).checksum;
  };
  const std::string one = checksum({1, 2, 3, 4}, "(2, 2)", 5);
  EXPECT_EQ(checksum({1, 2, 3, 4}, "(2, 2)", 5), one);
  EXPECT_NE(checksum({1, 2, 3, 5}, "(2, 2)", 5), one);
  EXPECT_NE(checksum({1, 2, 3, 4}, "(2, 2)", 6), one);
}

}  // namespace
}  // namespace cdt::data
