// Writes a model and data for the command line: model.safetensors, x.npy, y.npy in the folder
// given.
#include <cdt/core/npy.h>
#include <cdt/nn/mlp.h>
#include <cdt/nn/saved_model.h>

#include <cstdio>
#include <filesystem>

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  std::filesystem::create_directories(folder);
  torch::manual_seed(1);

  cdt::nn::MlpOptions options;
  options.inputs = 8;
  options.hidden = {128, 128};
  const cdt::nn::Mlp model(options, /*seed=*/1);
  cdt::nn::save_model(folder / "model.safetensors", model);

  auto x = torch::rand({120, 8}) - 0.5;
  auto y = (3 * x.select(1, 0)).sin() * x.select(1, 1) + x.select(1, 2).square();
  x[70] = x[12];  // the same input twice, with labels that disagree: `cdt analyze` finds it
  y[70] = y[12] + 0.4;
  cdt::save_npy(folder / "x.npy", x);
  cdt::save_npy(folder / "y.npy", y);
  std::printf("wrote model.safetensors, x.npy and y.npy to %s\n", folder.c_str());
}
