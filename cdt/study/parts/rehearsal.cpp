#include <cdt/nn/engine.h>
#include <cdt/nn/network.h>
#include <cdt/study/parts/rehearsal.h>
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/trainer.h>

#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

/// Features are as many as tables have, about; rows enough for products like theirs, and for a
/// sketch of some of them.
constexpr int64_t kFeatures = 64;
constexpr int64_t kRows = 20000;
constexpr int64_t kFewRows = 500;
constexpr int64_t kPoints = 2;

void take_points(torch::Device device, train::TrainOptions training, NetworkOptions network,
                 int64_t rows) {
  network.input_shape = {kFeatures};
  network.outputs = training.loss->classes() ? 2 : 1;
  nn::Network model = nn::make_network(network, /*seed=*/1, network.dtype);
  model->to(device);
  // Nobody's generator moves.
  const auto wave = [&](int64_t columns, double speed) {
    const Tensor at = torch::arange(rows * columns, torch::TensorOptions().device(device));
    return torch::sin(at.to(torch::kFloat64) * speed).view({rows, columns});
  };
  train::TrainData data;
  data.x = wave(kFeatures, 0.7).to(network.dtype);
  data.y = wave(network.outputs, 0.1);
  if (training.loss->classes()) {
    const Tensor first = (data.y.narrow(1, 0, 1) > 0).to(torch::kFloat64);
    data.y = torch::cat({first, 1 - first}, 1);
  }
  training.method = train::Method::kPath;
  training.steps = kPoints + 1;
  training.batch = 0;
  training.patience = 0;
  training.max_seconds = 0;
  train::Trainer trainer(model, data, training, nn::make_engine(model));
  for (int64_t k = 0; k < kPoints && !trainer.step().outcome; ++k) {
    nn::outputs_of(model, data.x).to(torch::kFloat64).cpu();
  }
}

}  // namespace

void rehearse(torch::Device device, const train::TrainOptions& training,
              const NetworkOptions& network) {
  // How many rows there are is not known yet: those of a sketch take most of what others do.
  train::TrainOptions some = training;
  if (some.form == train::Form::kAuto) some.form = train::Form::kSketch;
  take_points(device, some, network, kRows);
  if (training.form == train::Form::kAuto) take_points(device, training, network, kFewRows);
}

Rehearsal::Rehearsal(torch::Device device, const train::TrainOptions& training,
                     const NetworkOptions& network) {
  const bool dense = network.architecture == "mlp";
  if (!device.is_cuda() || !dense || training.method != train::Method::kPath) return;
  thread_ = std::thread([=] {
    try {
      rehearse(device, training, network);
    } catch (...) {  // NOLINT(bugprone-empty-catch): whoever does it in earnest finds it, too
    }
  });
}

void Rehearsal::wait() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace cdt::study
