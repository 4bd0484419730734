/// Flags of the settings of runs, made from their table: what `train`, `analyze`, `compare` and
/// `data` share.
#pragma once

#include <cdt/run/options.h>

#include <set>

#include "cli/command.h"

namespace cdt::cli {

/// The flag of a setting (cdt/run/settings.h), as its row says: help, values, default. What is
/// given goes to the options, and its name to `given`. They must outlive the command.
CLI::Option* add_setting(CLI::App& app, run::Options& options, const std::string& name);

/// FILE, and how to read one: --drop, --numeric, --text, --missing, --no-header, --delimiter, …
/// `required`: whether the command can do without FILE.
void add_csv_options(CLI::App& app, run::Options& options, bool required = true);

/// --inputs in place of FILE, and --labels: arrays of NumPy.
void add_array_options(CLI::App& app, std::string& file, std::string& labels);

/// @throws InvalidArgument if there is neither FILE nor --inputs, or --labels goes with no array.
void require_file(const std::string& file, const std::string& labels);
/// @throws InvalidArgument unless the file of --inputs holds arrays.
void require_arrays(const std::string& inputs);

/// Shows how far a long file has been read.
void show_reading(data::CsvOptions& csv, bool quiet);

/// The settings of runs (cdt/run/settings.h) that the command line gives, by their names.
std::set<std::string> given_settings(const CLI::App& app);

/// @throws InvalidArgument if a table has no target; pictures have theirs.
void require_target(const study::DataOptions& data);

/// Those, --target, --rows, --train-fraction, --categories, --scale, …
void add_table_options(CLI::App& app, run::Options& options, bool required);

/// Those, and what pictures and weights of samples need: --size, --sample-weights, …
void add_data_options(CLI::App& app, run::Options& options, bool required);

/// --arch, --hidden, --activation, --parametrization, --sigma-w, --sigma-b, --width-factor,
/// --dtype. `hidden_layers`: whether there are --arch and --hidden.
void add_network_options(CLI::App& app, run::Options& options, bool hidden_layers = true);

/// --memory, in MB.
CLI::Option* add_memory(CLI::App& app, int64_t& bytes, const std::string& text);

}  // namespace cdt::cli
