/// A table and a network, from flags to tensors: what `train`, `analyze` and `predict` share.
#pragma once

#include <cdt/data/preprocess.h>
#include <cdt/data/split.h>
#include <cdt/nn/architectures.h>
#include <cdt/train/trainer.h>

#include "cli/command.h"

namespace cdt::cli {

/// FILE and how it becomes samples: --target, --rows, --train-fraction, --categories, --scale, …
struct DataOptions {
  CsvFileOptions csv;
  std::vector<std::string> targets;
  int64_t rows = 0;
  double train_fraction = 0.7;
  int64_t train_rows = 0;  ///< instead of the fraction; 0: by the fraction
  std::string categories = "index";
  std::string missing_numbers = "zero";
  std::string unknown = "error";
  std::string scale = "minmax";
  std::string target_scale;  ///< empty: minmax
  bool classes = false;      ///< the target is a class: set by commands whose --loss says so
  std::string fit = "train";
  std::string sample_weights;

  void add_to(CLI::App& app, bool required);
};

/// --hidden, --activation, --parametrization, --sigma-w, --sigma-b, --width-factor, --dtype.
struct NetworkOptions {
  std::vector<int64_t> hidden{256, 256};
  std::string activation = "relu";
  std::string parametrization = "standard";
  double sigma_w = 1.0;
  double sigma_b = 0.1;
  int64_t width_factor = 1;
  std::string dtype = "float32";

  /// `hidden_layers`: whether there is --hidden.
  void add_to(CLI::App& app, bool hidden_layers = true);
};

/// Training rows that are equal in every feature and differ in a target.
struct ConflictingRows {
  std::vector<int64_t> lines;  ///< of the file, from 1
  std::string difference;      ///< in words: which target, how much, what can be learned
};

struct Problem {
  data::Table table;
  data::Split split;
  data::Preprocess preprocess;
  train::TrainData data;
  nn::Network model;
  std::vector<ConflictingRows> conflicts;
  std::string checksum;  ///< of the file's bytes
};

/// Reads the file, draws and splits rows, fits the preprocessing, makes the network.
/// @throws InvalidArgument if an option or the file is wrong.
Problem load_problem(const DataOptions& data, const NetworkOptions& network, uint64_t seed,
                     torch::Device device);

/// The same from a table that is there already; the problem's own table stays empty.
Problem make_problem(const data::Table& table, const DataOptions& data,
                     const NetworkOptions& network, uint64_t seed, torch::Device device);

/// Tells changed files apart, nothing more.
std::string checksum(const std::string& bytes);

}  // namespace cdt::cli
