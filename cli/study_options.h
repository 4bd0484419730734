/// Flags of the library's options, bound to their fields: what `train`, `analyze`, `compare` and
/// `data` share.
#pragma once

#include <cdt/study/options.h>
#include <cdt/train/options.h>

#include "cli/command.h"

namespace cdt::cli {

/// A flag that takes names of columns as a line of CSV: area,"price, net".
CLI::Option* add_columns(CLI::App& app, const std::string& flag, std::vector<std::string>& columns,
                         const std::string& text);

/// FILE, --drop, --numeric, --text, --missing, --no-header, --delimiter: a CSV file and how to read
/// it. `required`: whether the command can do without FILE.
void add_csv_options(CLI::App& app, std::string& file, data::CsvOptions& csv, bool required = true);

/// Those, --target, --rows, --train-fraction, --categories, --scale, …
void add_data_options(CLI::App& app, study::DataOptions& data, bool required);

/// --hidden, --activation, --parametrization, --sigma-w, --sigma-b, --width-factor, --dtype.
/// `hidden_layers`: whether there is --hidden.
void add_network_options(CLI::App& app, study::NetworkOptions& network, bool hidden_layers = true);

/// --method, --lr, --loss, --p, --q, …; --output-weights goes to the data.
void add_training_options(CLI::App& app, train::TrainOptions& training, study::DataOptions& data);

/// --memory, in MB.
CLI::Option* add_memory(CLI::App& app, int64_t& bytes, const std::string& text);

}  // namespace cdt::cli
