/// What every command of the program shares: its table entry, its options, its way out.
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

/// Exit codes beyond 0, done.
inline constexpr int kFailed = 1;         ///< the numbers or the machine refused
inline constexpr int kWrongUsage = 2;     ///< the caller got something wrong
inline constexpr int kInterrupted = 130;  ///< stopped by Ctrl-C, with a checkpoint

/// A command adds its options to `app` and returns what to run after parsing; that returns the exit
/// code.
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

/// Puts the options of --config FILE, or of the run that --resume names, before those of the
/// command line, unless it gives them itself. `arguments` starts with the command.
/// @throws InvalidArgument if the file cannot be read or names an option that the command lacks.
std::vector<std::string> expand_arguments(const CLI::App& app, std::vector<std::string> arguments);

/// --csv-safe.
void add_csv_safe(CLI::App& app, bool& csv_safe);

/// Type names of options that name files, by which main knows them.
inline constexpr const char* kInputFile = "FILE";
inline constexpr const char* kOutputFile = "OUTFILE";
/// And of those that name the folder where a run or a sweep goes.
inline constexpr const char* kOutputFolder = "DIR";
/// Of the options that were given; "-" and devices are no files.
/// @throws InvalidArgument if a file that is to be written is also read, is written twice, or
///   belongs to the folder of a run or a sweep.
void require_distinct_files(const CLI::App& command);

/// Checks of numbers whose messages say what was expected and what came.
CLI::Validator positive();
CLI::Validator non_negative();

/// A flag that takes one of `names`; `parse` makes the field's value of it. Shows the field's
/// present name as the default.
template <class T, class Parse>
CLI::Option* add_named(CLI::App& app, const std::string& flag, T& field, Parse parse,
                       const std::vector<std::string>& names, const std::string& text) {
  return app
      .add_option_function<std::string>(
          flag, [&field, parse](const std::string& name) { field = parse(name); }, text)
      ->check(among(names))
      ->default_str(to_string(field));
}

/// A flag of a field that holds something only if the flag is given.
template <class T>
CLI::Option* add_optional(CLI::App& app, const std::string& flag, std::optional<T>& field,
                          const std::string& text) {
  return app.add_option_function<T>(
      flag, [&field](const T& value) { field = value; }, text);
}

/// --json, --quiet: where results go.
struct OutputOptions {
  std::string json;  ///< a file, "-" for standard output, or empty
  bool quiet = false;
  /// Whether the work is kept in a folder: then it is finished even if nobody reads the text.
  bool kept = false;
  std::string config;

  /// Also --config, which main reads: every command that reports has it.
  void add_to(CLI::App& app);
  /// Text for people: standard output, unless --quiet is set or JSON goes there.
  void text(const std::string& text) const;
  /// Writes the JSON where it was asked for.
  void write_json(const std::string& json_text) const;
};

/// --device, --threads.
struct MachineOptions {
  std::string device = "cpu";
  int threads = 0;

  void add_to(CLI::App& app);
  /// Sets the number of threads (default: all cores) and returns the device.
  /// @throws InvalidArgument if CUDA is asked for and not there.
  torch::Device apply() const;
};

/// --kernel, or --model with --inputs: where the kernel comes from.
struct KernelSource {
  std::string kernel;
  std::string model;
  std::string inputs;
  int64_t memory_mb = 2048;
  bool by_rows = false;

  /// --model and --inputs, and --kernel where a kernel from a file will do.
  void add_to(CLI::App& app, bool kernel_from_file);
  kernel::NtkOptions ntk_options(bool quiet) const;
};

/// A kernel with what is known of its origin.
struct LoadedKernel {
  torch::Tensor theta;  ///< float64
  double rank_tolerance = 0;
  torch::ScalarType precision = torch::kFloat64;
  std::optional<torch::Tensor> outputs;  ///< ŷ [r, n_L], if it came from a model
  std::optional<torch::Tensor> inputs;
  std::optional<nn::Network> model;
  std::string report;  ///< how it was found, one line
  std::string file;    ///< where it was read from, if it was
};

/// Its eigendecomposition.
/// @throws InvalidArgument, naming the file, if it is not symmetric positive semidefinite.
dynamics::Modes decompose(const LoadedKernel& kernel);

/// @throws InvalidArgument if files cannot be read or do not fit each other.
LoadedKernel load_kernel(const KernelSource& source, torch::Device device, bool quiet);

/// --lr, --loss, --p, --q, --labels, --outputs, --outputs-per-sample: what the analysis needs
/// beside the kernel.
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
  /// Reads labels and outputs, and fits them to the kernel.
  analysis::PreflightOptions load(const LoadedKernel& kernel) const;
};

/// A saved model on `device`.
nn::Network load_model(const std::string& path, torch::Device device);
/// Inputs [r, features] that fit it, on its device and in its dtype.
torch::Tensor load_inputs(const std::string& path, const nn::Network& model);

/// A float64 tensor on `device` from a .npy file.
torch::Tensor load_matrix(const std::string& path, torch::Device device);

/// To standard output, at once. If nobody reads it any more, the program ends without a word.
/// @throws IoError if it cannot be written for another reason.
void print(const std::string& text);
/// Whether standard output is a pipe that nobody reads any more.
bool output_is_closed();
/// Ends the program as a closed pipe ends others: without a word, with the code 128 + SIGPIPE.
[[noreturn]] void end_unread();

/// "cdt: " and the text on standard error, without anything that steers the terminal.
void complain(const std::string& text);
/// "cdt: warning: " and the text.
void warn(const std::string& text);

/// Refuses whole numbers that do not fit their options, of all commands.
void check_whole_numbers(CLI::App& app);

/// From now on Ctrl-C, SIGTERM and SIGHUP (unless it is ignored, as by nohup) end the program at
/// once, with the exit code of an interruption.
void end_on_signals();

/// While it lives, the first of these signals asks to stop; the second one ends the program, and so
/// do 1.5 seconds in which neither this scope ends nor anybody acknowledges.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool requested();
  /// Whoever was asked is about to stop, and may take its time to save what it has.
  static void acknowledge();
};

/// The total of work that may end earlier: no share, and the time left at most.
constexpr int64_t at_most(int64_t total) { return -total; }
/// A progress line on a terminal (rate and time left), plain lines elsewhere; nothing for work
/// below a second. Called with what is done, the total, and a word on how it goes.
using Progress = std::function<void(int64_t, int64_t, const std::string&)>;
Progress progress(const std::string& what, const std::string& unit, bool quiet);

}  // namespace cdt::cli
