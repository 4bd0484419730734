/// What all commands of the program share: table entry, options, exit codes.
#pragma once

#include <cdt/analysis/preflight.h>
#include <cdt/data/csv.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/network.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cli/suggest.h"

namespace cdt::cli {

/// Exit codes other than 0, success.
inline constexpr int kFailed = 1;         ///< a numerical or system error
inline constexpr int kWrongUsage = 2;     ///< an error of the caller
inline constexpr int kInterrupted = 130;  ///< stopped by Ctrl-C, with a checkpoint

/// A command adds its options to `app` and returns the function to run after parsing, which returns
/// the exit code.
struct Command {
  const char* name;
  const char* summary;
  std::function<int()> (*setup)(CLI::App& app);
};

std::function<int()> setup_analyze(CLI::App& app);
std::function<int()> setup_compare(CLI::App& app);
std::function<int()> setup_completion(CLI::App& app);
std::function<int()> setup_data(CLI::App& app);
std::function<int()> setup_design(CLI::App& app);
std::function<int()> setup_info(CLI::App& app);
std::function<int()> setup_kernel(CLI::App& app);
std::function<int()> setup_predict(CLI::App& app);
std::function<int()> setup_report(CLI::App& app);
std::function<int()> setup_reproduce(CLI::App& app);
std::function<int()> setup_train(CLI::App& app);
std::function<int()> setup_verify(CLI::App& app);

/// Inserts the options of --config FILE, or of the run named by --resume, before those of the
/// command line, which take precedence. `arguments` starts with the command.
/// @throws InvalidArgument if the file cannot be read or names an option that the command lacks.
std::vector<std::string> expand_arguments(const CLI::App& app, std::vector<std::string> arguments);

/// --csv-safe.
void add_csv_safe(CLI::App& app, bool& csv_safe);

/// Type names of options that name files; main recognizes file options by them.
inline constexpr const char* kInputFile = "FILE";
inline constexpr const char* kOutputFile = "OUTFILE";
/// Type name of options that name the folder of a run or a sweep.
inline constexpr const char* kOutputFolder = "DIR";
/// Checks the options that were given; "-" and devices do not count as files.
/// @throws InvalidArgument if an output file is also read, is written twice, or belongs to the
///   folder of a run or a sweep.
void require_distinct_files(const CLI::App& command);

/// Checks of numbers; messages say what was expected and what was given.
CLI::Validator positive();
CLI::Validator non_negative();

/// An option that takes one of `names`; `parse` converts it to the field's value. The default shown
/// is the field's current name.
template <class T, class Parse>
CLI::Option* add_named(CLI::App& app, const std::string& flag, T& field, Parse parse,
                       const std::vector<std::string>& names, const std::string& text) {
  return app
      .add_option_function<std::string>(
          flag, [&field, parse](const std::string& name) { field = parse(name); }, text)
      ->check(among(names))
      ->default_str(to_string(field));
}

/// An option whose field is set only if the option is given.
template <class T>
CLI::Option* add_optional(CLI::App& app, const std::string& flag, std::optional<T>& field,
                          const std::string& text) {
  return app.add_option_function<T>(
      flag, [&field](const T& value) { field = value; }, text);
}

/// --json, --quiet: the destination of results.
struct OutputOptions {
  std::string json;  ///< a file, "-" for standard output, or empty
  bool quiet = false;
  /// Whether results are kept in a folder: then the work is completed even if standard output is
  /// closed.
  bool kept = false;
  std::string config;

  /// Also adds --config, which main reads: every command with output has it.
  void add_to(CLI::App& app);
  /// Prints text to standard output, unless --quiet is set or JSON goes there.
  void text(const std::string& text) const;
  /// Writes the JSON to its destination, if any.
  void write_json(const std::string& json_text) const;
};

/// --device, --threads.
struct MachineOptions {
  std::string device = "cpu";
  int threads = 0;

  void add_to(CLI::App& app);
  /// Sets the number of threads (default: all cores) and returns the device.
  /// @throws InvalidArgument if CUDA is requested but not available.
  torch::Device apply() const;
};

/// --kernel, or --model with --inputs: the source of the kernel.
struct KernelSource {
  std::string kernel;
  std::string model;
  std::string inputs;
  int64_t memory_mb = 2048;
  bool by_rows = false;

  /// Adds --model and --inputs, and --kernel if a kernel from a file is supported.
  void add_to(CLI::App& app, bool kernel_from_file);
  kernel::NtkOptions ntk_options(bool quiet) const;
};

/// A kernel and its origin.
struct LoadedKernel {
  torch::Tensor theta;  ///< float64
  double rank_tolerance = 0;
  torch::ScalarType precision = torch::kFloat64;
  std::optional<torch::Tensor> outputs;  ///< ŷ [r, n_L], if it was computed from a model
  std::optional<torch::Tensor> inputs;
  std::optional<nn::Network> model;
  std::string report;  ///< how it was computed, one line
  std::string file;    ///< file from which it was read, if any
};

/// The kernel's eigendecomposition.
/// @throws InvalidArgument, naming the file, if it is not symmetric positive semidefinite.
dynamics::Modes decompose(const LoadedKernel& kernel);

/// @throws InvalidArgument if files cannot be read or do not fit together.
LoadedKernel load_kernel(const KernelSource& source, torch::Device device, bool quiet);

/// --lr, --loss, --p, --q, --labels, --outputs, --outputs-per-sample: what the analysis needs in
/// addition to the kernel.
struct DesignOptions {
  double learning_rate = 0;
  loss::LossPtr loss = loss::mse();
  double p = 0.1;
  double q = 1.0;
  std::string controller = "lqr";
  std::string labels;
  std::string outputs;
  int64_t outputs_per_sample = 0;
  int64_t reach_steps = 10;

  /// `rate_required`: whether --lr has no default.
  void add_to(CLI::App& app, bool rate_required = true);
  /// Reads labels and outputs, and checks them against the kernel.
  analysis::PreflightOptions load(const LoadedKernel& kernel) const;
};

/// A saved model on `device`.
nn::Network load_model(const std::string& path, torch::Device device);
/// Inputs [r, features] for the model, on its device and in its dtype.
torch::Tensor load_inputs(const std::string& path, const nn::Network& model);

/// A float64 tensor on `device` from a .npy file.
torch::Tensor load_matrix(const std::string& path, torch::Device device);

/// Prints to standard output and flushes. If the reader has closed the pipe, the program ends
/// without a message.
/// @throws IoError if writing fails for another reason.
void print(const std::string& text);
/// Whether standard output is a pipe whose reader has closed it.
bool output_is_closed();
/// Ends the program as other programs end on a closed pipe: no message, exit code 128 + SIGPIPE.
[[noreturn]] void end_unread();

/// Prints "cdt: " and the text to standard error, without terminal control characters.
void complain(const std::string& text);
/// Prints "cdt: warning: " and the text to standard error.
void warn(const std::string& text);

/// Rejects integers that do not fit their options, for all commands.
void check_whole_numbers(CLI::App& app);

/// From now on Ctrl-C, SIGTERM and SIGHUP (unless it is ignored, as by nohup) end the program
/// immediately, with the exit code of an interruption.
void end_on_signals();

/// While this scope exists, the first of these signals requests a stop. A second signal ends the
/// program, and so does a delay of 1.5 seconds in which the scope neither ends nor acknowledges.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool requested();
  /// Acknowledges the request: the work is about to stop, and may take longer to save its state.
  static void acknowledge();
};

/// Total of work that may end early: the progress line shows no percentage, only an upper bound on
/// the time left.
constexpr int64_t at_most(int64_t total) { return -total; }
/// A progress line on a terminal (rate and time left), plain lines elsewhere; nothing for work
/// below a second. Arguments: work done, total, and a short status text.
using Progress = std::function<void(int64_t, int64_t, const std::string&)>;
Progress progress(const std::string& what, const std::string& unit, bool quiet);

}  // namespace cdt::cli
