/// Flags of the library's options, bound to their fields: what `train`, `analyze`, `compare` and
/// `data` share.
#pragma once

#include <cdt/study/options.h>
#include <cdt/train/options.h>

#include <set>

#include "cli/command.h"

namespace cdt::cli {

/// A flag that takes names of columns as a line of CSV: area,"price, net".
CLI::Option* add_columns(CLI::App& app, const std::string& flag, std::vector<std::string>& columns,
                         const std::string& text);

/// FILE, --drop, --numeric, --text, --missing, --no-header, --delimiter: a CSV file and how to read
/// it. `required`: whether the command can do without FILE.
void add_csv_options(CLI::App& app, std::string& file, data::CsvOptions& csv, bool required = true);

/// --inputs in place of FILE, and --labels: arrays of NumPy.
void add_array_options(CLI::App& app, std::string& file, std::string& labels);

/// @throws InvalidArgument if there is neither FILE nor --inputs, or --labels goes with no array.
void require_file(const std::string& file, const std::string& labels);

/// Shows how far a long file has been read.
void show_reading(data::CsvOptions& csv, bool quiet);

/// The settings of runs (cdt/run/settings.h) that the command line gives, by their names.
std::set<std::string> given_settings(const CLI::App& app);

/// @throws InvalidArgument if a table has no target; pictures have theirs.
void require_target(const study::DataOptions& data);

/// Those, --target, --rows, --train-fraction, --categories, --scale, …
void add_table_options(CLI::App& app, study::DataOptions& data, bool required);

/// Those, and what pictures and weights of samples need: --size, --sample-weights, …
void add_data_options(CLI::App& app, study::DataOptions& data, bool required);

/// --arch, --hidden, --activation, --parametrization, --sigma-w, --sigma-b, --width-factor,
/// --dtype. `hidden_layers`: whether there are --arch and --hidden.
void add_network_options(CLI::App& app, study::NetworkOptions& network, bool hidden_layers = true);

/// --method, --lr, --loss, --p, --q, …; --output-weights goes to the data.
void add_training_options(CLI::App& app, train::TrainOptions& training, study::DataOptions& data);

/// --memory, in MB.
CLI::Option* add_memory(CLI::App& app, int64_t& bytes, const std::string& text);

}  // namespace cdt::cli
