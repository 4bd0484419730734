// Samples on demand against whole tensors.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/data/houses.h>
#include <cdt/data/samples.h>
#include <gmock/gmock.h>

#include "support/temp_folder.h"

namespace cdt::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::Tensor;

struct SampleTable {
  test::TempFolder folder;
  Table table;
  Preprocess preprocess;

  explicit SampleTable(Encoding encoding = Encoding::kOneHot) {
    const auto path = folder / "houses.csv";
    write_file_atomically(path, {make_houses(40, 3)});
    table = read_csv(path);
    PreprocessOptions options;
    options.targets = {"price"};
    options.encoding = encoding;
    preprocess = fit_preprocess(table, options);
  }
};

Tensor pick(const Tensor& whole, const std::vector<int64_t>& rows) {
  return whole.index_select(0, torch::tensor(rows, torch::kInt64));
}

// In order, out of order, again and again, none.
const std::vector<std::vector<int64_t>> kChoices{{0, 1, 2}, {19, 3, 7}, {5, 5, 0, 5}, {11}, {}};

TEST(Samples, BatchesAreRowsOfTheWholeTensors) {
  for (const Encoding encoding : {Encoding::kIndex, Encoding::kOneHot}) {
    const SampleTable source(encoding);
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < 20; ++i) rows.push_back(39 - 2 * i);
    const Tensor x = source.preprocess.transform(source.table, rows);
    const Tensor y = source.preprocess.transform_targets(source.table, rows);
    const TableSamples by_table(source.table, source.preprocess, rows);
    const TensorSamples in_memory(x, y);
    for (const Samples* samples :
         {static_cast<const Samples*>(&by_table), static_cast<const Samples*>(&in_memory)}) {
      EXPECT_EQ(samples->count(), 20);
      EXPECT_EQ(samples->feature_shape(), std::vector<int64_t>{x.size(1)});
      EXPECT_EQ(samples->label_count(), 1);
      for (const auto& chosen : kChoices) {
        const Batch batch = samples->batch(chosen);
        EXPECT_TRUE(torch::equal(batch.x, pick(x, chosen))) << chosen;
        EXPECT_TRUE(torch::equal(batch.y, pick(y, chosen))) << chosen;
      }
      EXPECT_TRUE(torch::equal(samples->all().x, x));
      EXPECT_TRUE(torch::equal(samples->all().y, y));
    }
    const TableSamples whole(source.table, source.preprocess);
    EXPECT_EQ(whole.count(), 40);
    EXPECT_TRUE(torch::equal(whole.all().x, source.preprocess.transform(source.table)));
  }
}

TEST(Samples, OfTensorsAreTakenAsTheyAre) {
  const Tensor images = torch::randn({4, 3, 5, 5}), labels = torch::rand({4, 10});
  const TensorSamples samples(images, labels);
  EXPECT_EQ(samples.feature_shape(), (std::vector<int64_t>{3, 5, 5}));
  EXPECT_EQ(samples.label_count(), 10);
  EXPECT_EQ(samples.batch({2, 0}).x.sizes(), (std::vector<int64_t>{2, 3, 5, 5}));
  EXPECT_TRUE(samples.all().x.is_same(images));
  const TensorSamples unlabelled(images);
  EXPECT_EQ(unlabelled.label_count(), 0);
  EXPECT_FALSE(unlabelled.batch({1}).y.defined());
}

TEST(Samples, NeedNoTargetsWithoutLabels) {
  SampleTable source;
  std::erase_if(source.table.columns, [](const Column& column) { return column.name == "price"; });
  const TableSamples samples(source.table, source.preprocess, TableSamples::Labels::kNone);
  EXPECT_EQ(samples.label_count(), 0);
  EXPECT_FALSE(samples.batch({1, 2}).y.defined());
  const TableSamples labelled(source.table, source.preprocess);
  EXPECT_THAT([&] { labelled.batch({0}); }, ThrowsMessage<InvalidArgument>(HasSubstr("price")));
}

TEST(Samples, RefuseRowsThatAreNotThere) {
  const SampleTable source;
  const TableSamples by_table(source.table, source.preprocess, {4, 5, 6});
  const TensorSamples in_memory(torch::zeros({3, 2}));
  for (const Samples* samples :
       {static_cast<const Samples*>(&by_table), static_cast<const Samples*>(&in_memory)}) {
    for (const int64_t row : {int64_t{-1}, int64_t{3}}) {
      EXPECT_THAT(
          [&] {
            samples->batch({0, row});
          },
          ThrowsMessage<InvalidArgument>(
              HasSubstr(c10::str("expected samples from 0 to 2, got ", row))));
    }
  }
  EXPECT_THAT([&] { TableSamples(source.table, source.preprocess, {40}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("houses.csv: expected rows from 0 to 39")));
  EXPECT_THAT(
      [&] {
        TensorSamples(torch::zeros({3, 2}), torch::zeros({2, 1}));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("[2, 1]")));
  EXPECT_THROW(TensorSamples(torch::zeros({0, 2})), InvalidArgument);
}

}  // namespace
}  // namespace cdt::data
