/// A table and a network as tensors: the input of analysis, training and sweeps.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/pictures.h>
#include <cdt/data/split.h>
#include <cdt/study/options.h>
#include <cdt/train/trainer.h>

namespace cdt::study {

/// Training rows equal in every feature with different targets.
struct ConflictingRows {
  std::vector<int64_t> lines;  ///< lines of the file, from 1
  std::string difference;      ///< in words: which target, by how much, and what can be learned
};

struct Problem {
  data::Table table;
  /// Checksum of the data: of the table; for pictures also of the pixels drawn.
  std::string checksum;
  data::Split split;
  data::Preprocess preprocess;
  train::TrainData data;
  nn::Network model;
  std::vector<ConflictingRows> conflicts;
  /// Choices made, in words: rows and columns left out, logarithms, dates.
  std::vector<std::string> notes;
  /// For training rows, then validation rows: the group of each, numbered from 0, if groups must
  /// stay together; else empty.
  std::vector<int64_t> groups;
  /// Likewise, if rows repeat: the number of the distinct row that each equals in every feature;
  /// else empty. Statements about new rows count distinct ones.
  std::vector<int64_t> different;
  /// Whether the validation rows are fixed, the latest ones, and must not be redrawn.
  bool fixed_split = false;
  /// Pictures that were drawn, could not be read and were left out, with the reasons.
  std::vector<data::Pictures::Unreadable> skipped;
};

/// Reads the file, draws and splits rows, fits the preprocessing, creates the network. Unreadable
/// pictures are an error, or left out and replaced by others until all can be read.
/// @throws InvalidArgument if an option or the file is wrong.
Problem load_problem(const DataOptions& data, const NetworkOptions& network, uint64_t seed,
                     torch::Device device);

/// The same for an existing table; the problem's own table stays empty.
Problem make_problem(const data::Table& table, const DataOptions& data,
                     const NetworkOptions& network, uint64_t seed, torch::Device device);

/// The same for these rows of the table; values in other rows are not used. (Categories and classes
/// are those of the whole table.)
Problem make_problem(const data::Table& table, const std::vector<int64_t>& rows,
                     const DataOptions& data, const NetworkOptions& network, uint64_t seed,
                     torch::Device device);

/// Whether the target is by default a class: one column of text that is not mostly numbers, or with
/// two distinct numbers.
bool is_class(const data::Table& table, const std::vector<std::string>& targets);

/// A note on numbers that could be classes (two, or few integers), after that is decided. Empty if
/// there is none.
std::string note_on_target(const data::Table& table, const std::vector<std::string>& targets,
                           bool classes);

/// One warning per class without training rows.
std::vector<std::string> classes_without_rows(const Problem& problem);

}  // namespace cdt::study
