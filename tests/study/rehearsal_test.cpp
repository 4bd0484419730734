// What is done beside reading, before a GPU is needed: it does no harm, with a GPU or without.
#include <cdt/core/error.h>
#include <cdt/study/learn.h>
#include <cdt/study/parts/rehearsal.h>
#include <gmock/gmock.h>

#include "support/compare.h"

namespace cdt::study {
namespace {

train::TrainOptions path() {
  train::TrainOptions training;
  training.method = train::Method::kPath;
  return training;
}

NetworkOptions small() {
  NetworkOptions network;
  network.hidden = {8};
  return network;
}

TEST(Rehearsal, SwallowsWhatGoesWrong) {
  // Without a GPU its thread fails at once; with one it does what it is for.
  for (const torch::Device device : {torch::Device(torch::kCPU), torch::Device(torch::kCUDA)}) {
    Rehearsal rehearsal(device, path(), small());
    rehearsal.wait();
    rehearsal.wait();
  }
  NetworkOptions wrong = small();
  wrong.hidden = {-1};
  const Rehearsal ends(torch::kCUDA, path(), wrong);
}

TEST(Rehearsal, TouchesNoGenerator) {
  for (const auto& device : test::devices()) {
    for (const auto& loss : {loss::mse(), loss::cross_entropy()}) {
      train::TrainOptions training = path();
      training.loss = loss;
      torch::manual_seed(3);
      const auto options = torch::TensorOptions().device(device);
      const torch::Tensor expected = torch::rand({4}, options);
      torch::manual_seed(3);
      rehearse(device, training, small());
      EXPECT_TRUE(torch::equal(torch::rand({4}, options), expected)) << device;
    }
  }
}

}  // namespace
}  // namespace cdt::study
