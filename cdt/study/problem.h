/// A table and a network as tensors: what analysis, training and sweeps start from.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/pictures.h>
#include <cdt/data/split.h>
#include <cdt/study/options.h>
#include <cdt/train/trainer.h>

namespace cdt::study {

/// Training rows that are equal in every feature and differ in a target.
struct ConflictingRows {
  std::vector<int64_t> lines;  ///< of the file, from 1
  std::string difference;      ///< in words: which target, how much, what can be learned
};

struct Problem {
  data::Table table;
  /// Of the data: that of the table; of pictures also of the pixels that were drawn.
  std::string checksum;
  data::Split split;
  data::Preprocess preprocess;
  train::TrainData data;
  nn::Network model;
  std::vector<ConflictingRows> conflicts;
  /// What was chosen on the way, in words: rows and columns left out, logarithms, dates.
  std::vector<std::string> notes;
  /// Of training rows, then validation rows: the group that each belongs to, numbered from 0, if
  /// groups must stay together; else empty.
  std::vector<int64_t> groups;
  /// Likewise of rows that repeat: which of the different rows each is, equal in every feature.
  /// Empty: none repeats. What is said of new rows counts different ones.
  std::vector<int64_t> different;
  /// Whether validation rows are what they must be, the latest, and no others may be drawn.
  bool fixed_split = false;
  /// Pictures that were drawn, could not be read and were left out, and why.
  std::vector<data::Pictures::Unreadable> skipped;
};

/// Reads the file, draws and splits rows, fits the preprocessing, makes the network. Pictures that
/// cannot be read are refused, or left out and others drawn instead, until all can be read.
/// @throws InvalidArgument if an option or the file is wrong.
Problem load_problem(const DataOptions& data, const NetworkOptions& network, uint64_t seed,
                     torch::Device device);

/// The same from a table that is there already; the problem's own table stays empty.
Problem make_problem(const data::Table& table, const DataOptions& data,
                     const NetworkOptions& network, uint64_t seed, torch::Device device);

/// The same from these rows of the table; values in others are not learned from. (Categories and
/// classes are those of the whole table.)
Problem make_problem(const data::Table& table, const std::vector<int64_t>& rows,
                     const DataOptions& data, const NetworkOptions& network, uint64_t seed,
                     torch::Device device);

/// Whether what to learn is one column of text that is not mostly numbers, or of numbers of which
/// two differ alone: classes, by default.
bool is_class(const data::Table& table, const std::vector<std::string>& targets);

/// What there is to say of numbers that could be classes, two or few whole ones, once it is decided
/// what they are. Empty: nothing.
std::string note_on_target(const data::Table& table, const std::vector<std::string>& targets,
                           bool classes);

/// A warning for each class that no training row has.
std::vector<std::string> classes_without_rows(const Problem& problem);

}  // namespace cdt::study
