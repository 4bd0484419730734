/// Flags of the settings of runs, generated from their table, for `train`, `analyze`, `compare` and
/// `data`.
#pragma once

#include <cdt/run/options.h>

#include <set>

#include "cli/command.h"

namespace cdt::cli {

/// Adds the flag of a setting (cdt/run/settings.h), with help, values and default from its row. A
/// given value is stored in `options`, and its name in `given`. `options` must outlive the command.
CLI::Option* add_setting(CLI::App& app, run::Options& options, const std::string& name);

/// FILE, and its reading options: --drop, --numeric, --text, --missing, --no-header, --delimiter, …
/// `required`: whether the command needs FILE.
void add_csv_options(CLI::App& app, run::Options& options, bool required = true);

/// --inputs instead of FILE, and --labels: NumPy arrays.
void add_array_options(CLI::App& app, std::string& file, std::string& labels);

/// @throws InvalidArgument if there is neither FILE nor --inputs, or --labels without an array.
void require_file(const std::string& file, const std::string& labels);
/// @throws InvalidArgument unless the file of --inputs contains arrays.
void require_arrays(const std::string& inputs);

/// Shows the progress of reading a long file.
void show_reading(data::CsvOptions& csv, bool quiet);

/// The names of the run settings (cdt/run/settings.h) given on the command line.
std::set<std::string> given_settings(const CLI::App& app);

/// @throws InvalidArgument if a table has no target; pictures define their own.
void require_target(const study::DataOptions& data);

/// The CSV options, and --target, --rows, --train-fraction, --categories, --scale, …
void add_table_options(CLI::App& app, run::Options& options, bool required);

/// The table options, and those for pictures and sample weights: --size, --sample-weights, …
void add_data_options(CLI::App& app, run::Options& options, bool required);

/// --arch, --hidden, --activation, --parametrization, --sigma-w, --sigma-b, --width-factor,
/// --dtype. `hidden_layers`: whether to add --arch and --hidden.
void add_network_options(CLI::App& app, run::Options& options, bool hidden_layers = true);

/// --memory, in MB.
CLI::Option* add_memory(CLI::App& app, int64_t& bytes, const std::string& text);

}  // namespace cdt::cli
