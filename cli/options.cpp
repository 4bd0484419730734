// Options that several commands share, and reading their files.
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/machine/device.h>
#include <cdt/core/npy.h>
#include <cdt/core/tolerance.h>
#include <cdt/experiment/store.h>
#include <cdt/nn/saved_model.h>
#include <cdt/run/folder.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "cli/command.h"

namespace cdt::cli {

namespace {

namespace fs = std::filesystem;

CLI::Validator number_check(const std::string& expected, bool (*accepts)(double)) {
  return {[expected, accepts](std::string& text) {
            double value = 0;
            const bool good =
                CLI::detail::lexical_cast(text, value) && std::isfinite(value) && accepts(value);
            return good ? std::string() : c10::str("expected ", expected, ", got '", text, "'");
          },
          "", ""};
}

/// More threads than cores only wait for each other, and thousands take a minute to start.
constexpr int kThreadsPerCore = 16;

int core_count() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

CLI::Validator thread_count() {
  return {[](std::string& text) {
            int64_t count = 0;
            const int64_t most = int64_t{kThreadsPerCore} * core_count();
            const bool good = CLI::detail::lexical_cast(text, count) && count >= 0 && count <= most;
            return good ? std::string()
                        : c10::str("expected 0 to ", most, " threads, ", kThreadsPerCore,
                                   " for each of the machine's cores (", core_count(), "), got '",
                                   text, "'");
          },
          "", ""};
}

/// Rejects an integer that does not fit its option, which CLI11 would clamp.
CLI::Validator whole_number(bool negative) {
  return {[negative](std::string& text) {
            errno = 0;
            if (negative) {
              std::strtoll(text.c_str(), nullptr, 0);
            } else {
              std::strtoull(text.c_str(), nullptr, 0);
            }
            const bool good = errno == 0 && (negative || text.find('-') == std::string::npos);
            return good ? std::string()
                        : c10::str("expected a whole number from ", negative ? "−2⁶³" : "0", " to ",
                                   negative ? "2⁶³" : "2⁶⁴", " − 1, got '", text, "'");
          },
          "", ""};
}

/// Whether the option or positional argument names a file.
bool is_file(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type == kInputFile || type == kOutputFile || option.get_name() == kInputFile;
}

fs::path place_of(const std::string& path) {
  std::error_code failed;
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path found = fs::weakly_canonical(whole, failed);
  return failed ? whole : found;
}

/// The folders to which this call writes a run or a sweep.
std::set<fs::path> written_folders(const CLI::App& command) {
  std::set<fs::path> folders;
  for (const CLI::Option* option : command.get_options()) {
    const bool folder = option->get_type_name() == kOutputFolder && option->count() > 0;
    if (folder && !option->results().empty()) folders.insert(place_of(option->results().back()));
  }
  return folders;
}

/// Whether the file belongs to an existing run or sweep, or to one that will be written to
/// `folders`: only training and sweeps write those files.
bool is_kept(const fs::path& file, const std::set<fs::path>& folders) {
  const auto has = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), file.filename().string()) != names.end();
  };
  const fs::path folder = file.parent_path();
  const bool comes = folders.contains(folder);
  return ((comes || run::RunFolder(folder).holds_run()) && has(run::RunFolder::file_names())) ||
         ((comes || experiment::holds_sweep(folder)) && has(experiment::sweep_files())) ||
         (folder.filename() == "runs" && experiment::holds_sweep(folder.parent_path()));
}

}  // namespace

CLI::Validator positive() {
  return number_check("a number above 0", [](double value) { return value > 0; });
}
CLI::Validator non_negative() {
  return number_check("a number, 0 or more", [](double value) { return value >= 0; });
}

void add_csv_safe(CLI::App& app, bool& csv_safe) {
  app.add_flag("--csv-safe", csv_safe,
               "names and classes that a spreadsheet would take for a formula get an apostrophe in "
               "front in the CSV files that are written");
}

void check_whole_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("UINT")) option->check(whole_number(/*negative=*/false));
    if (type.starts_with("INT") || type == "N") option->check(whole_number(/*negative=*/true));
  }
  for (CLI::App* command : app.get_subcommands({})) check_whole_numbers(*command);
}

void MachineOptions::add_to(CLI::App& app) {
  app.add_option("--device", device, "cpu or cuda")
      ->check(among({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option(
         "--threads", threads,
         "CPU threads; 0 takes all cores, and one for small batches of --form batch or of an "
         "optimizer")
      ->check(thread_count())
      ->capture_default_str();
}

torch::Device MachineOptions::apply() const {
  torch::set_num_threads(threads > 0 ? threads : core_count());
  CDT_REQUIRE(device != "cuda" || torch::cuda::is_available(),
              "--device cuda was asked for, but this LibTorch finds no CUDA device");
  const torch::Device chosen(device == "cuda" ? torch::kCUDA : torch::kCPU);
  prepare_device(chosen);
  return chosen;
}

void KernelSource::add_to(CLI::App& app, bool kernel_from_file) {
  CLI::Option* from_file = nullptr;
  if (kernel_from_file) {
    from_file =
        app.add_option("--kernel", kernel, "kernel Θ [n, n] as .npy")->type_name(kInputFile);
  }
  CLI::Option* from_model =
      app.add_option("--model", model, "a saved model (.safetensors with its architecture)")
          ->type_name(kInputFile);
  CLI::Option* with_inputs =
      app.add_option("--inputs", inputs, "its inputs [r, features] as .npy")->type_name(kInputFile);
  from_model->needs(with_inputs);
  with_inputs->needs(from_model);
  if (from_file != nullptr) from_file->excludes(from_model)->excludes(with_inputs);
  app.add_option("--memory", memory_mb,
                 "memory for the kernel's computation, in MB, beyond the kernel itself")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_flag(
      "--by-rows", by_rows,
      "compute the kernel from Jacobian rows instead of layer rules (slow; a cross-check)");
}

kernel::NtkOptions KernelSource::ntk_options(bool quiet) const {
  kernel::NtkOptions options;
  options.memory_bytes = memory_mb << 20;
  if (by_rows) options.path = kernel::NtkOptions::Path::kJacobian;
  options.progress = [show = progress("kernel", "blocks", quiet)](int64_t done, int64_t total) {
    show(done, total, "");
  };
  return options;
}

torch::Tensor load_matrix(const std::string& path, torch::Device device) {
  const torch::Tensor matrix = load_npy(path);
  require_finite(matrix, path);
  return matrix.to(device, torch::kFloat64);
}

nn::Network load_model(const std::string& path, torch::Device device) {
  nn::Network model = nn::load_model(path);
  model->to(device);
  return model;
}

torch::Tensor load_inputs(const std::string& path, const nn::Network& model) {
  const torch::Tensor x = load_npy(path);
  std::string wanted = "[r";
  for (const int64_t size : model->input_shape()) wanted += c10::str(", ", size);
  CDT_REQUIRE(x.dim() >= 1 && x.sizes().slice(1) == c10::IntArrayRef(model->input_shape()), path,
              ": the model takes inputs ", wanted, "], these have shape ", x.sizes());
  CDT_REQUIRE(x.size(0) > 0, path, ": holds no samples");
  require_finite(x, path);
  return x.to(model->device(), model->dtype());
}

LoadedKernel load_kernel(const KernelSource& source, torch::Device device, bool quiet) {
  LoadedKernel loaded;
  if (!source.kernel.empty()) {
    const torch::Tensor stored = load_npy(source.kernel);
    loaded.precision = stored.scalar_type();
    CDT_REQUIRE(stored.dim() == 2 && stored.size(0) == stored.size(1) && stored.numel() > 0,
                source.kernel, ": a kernel must be a square matrix, this has shape ",
                stored.sizes());
    require_finite(stored, source.kernel);
    loaded.theta = stored.to(device, torch::kFloat64);
    loaded.rank_tolerance = tol::rank_of_stored(stored.size(0), loaded.precision);
    if (loaded.precision != torch::kFloat64) {
      // Each half was rounded to float32 separately.
      require_symmetric(loaded.theta, source.kernel, tol::symmetry(loaded.precision));
      loaded.theta = (loaded.theta + loaded.theta.t()) / 2;
    }
    loaded.report = "read from " + source.kernel;
    loaded.file = source.kernel;
    return loaded;
  }
  CDT_REQUIRE(!source.model.empty(),
              "a kernel file (--kernel) or a model with inputs (--model, --inputs) is needed");
  const nn::Network model = load_model(source.model, device);
  const torch::ScalarType dtype = model->dtype();
  loaded.inputs = load_inputs(source.inputs, model);
  loaded.model = model;
  const auto ntk = kernel::empirical_ntk(model, *loaded.inputs, source.ntk_options(quiet));
  loaded.theta = ntk.theta;
  loaded.outputs = ntk.outputs;
  loaded.rank_tolerance = tol::rank_of_computed(ntk.theta.size(0), dtype);
  loaded.report = ntk.brief_report();
  return loaded;
}

dynamics::Modes decompose(const LoadedKernel& kernel) {
  try {
    return dynamics::decompose(kernel.theta, kernel.rank_tolerance, kernel.precision);
  } catch (const InvalidArgument& error) {
    if (kernel.file.empty()) throw;
    throw InvalidArgument(
        c10::str(kernel.file, ": ", error.what(),
                 kernel.precision == torch::kFloat64
                     ? ". If it was computed in float32, save it as float32: rounding counts, then"
                     : ""));
  }
}

void require_distinct_files(const CLI::App& command) {
  auto given = command.get_options(
      [&](const CLI::Option* option) { return option->count() > 0 && is_file(*option); });
  // Input files come first, so that messages name the option that writes.
  std::stable_partition(given.begin(), given.end(), [](const CLI::Option* option) {
    return option->get_type_name() != kOutputFile;
  });
  const std::set<fs::path> folders = written_folders(command);
  std::map<fs::path, std::string> taken;
  for (const CLI::Option* option : given) {
    const std::string path = option->results().back();
    std::error_code absent;
    if (path.empty() || path == "-" || fs::is_other(path, absent)) continue;
    const fs::path whole = place_of(path);
    const auto [other, is_new] = taken.emplace(whole, option->get_name());
    if (option->get_type_name() != kOutputFile) continue;
    CDT_REQUIRE(is_new, option->get_name(), " and ", other->second, " name the same file, ", path);
    CDT_REQUIRE(!is_kept(whole, folders), option->get_name(), ": ", path,
                " belongs to the run or the sweep in ", whole.parent_path().string(),
                "; choose another name");
  }
}

void DesignOptions::add_to(CLI::App& app, bool rate_required) {
  app.add_option("--lr", learning_rate,
                 rate_required ? "learning rate α"
                               : "learning rate α; default: half of the largest at which gradient "
                                 "descent does not oscillate")
      ->required(rate_required)
      ->check(positive());
  if (rate_required) {
    add_named(app, "--loss", loss, loss::parse, {"sse", "half-mse", "mse"}, "mse, half-mse or sse");
  } else {  // analyze, which accepts tables
    app.add_option_function<std::string>(
           "--loss", [this](const std::string& name) { loss = loss::parse(name); },
           "mse, half-mse, sse. CSV files also: cross-entropy, whose target is a class; huber:δ, "
           "quantile:q and poisson, by their curvature at the outputs before training")
        ->check([](const std::string& name) -> std::string {
          try {
            const loss::Traits traits = loss::parse(name)->traits();
            return traits.trainable && traits.has_curvature()
                       ? ""
                       : "expected a loss with curvature, got " + name;
          } catch (const InvalidArgument& error) {
            return error.what();
          }
        })
        ->default_str(to_string(loss));
  }
  app.add_option("--p", p, "weight on label augments, R = pI: smaller steers harder")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--q", q, "weight on errors, Q = qI")->check(positive())->capture_default_str();
  if (!rate_required) {
    app.add_option("--controller", controller,
                   "the controller to examine, as of cdt train --method cdt")
        ->check(CLI::IsMember(control::design_names()))
        ->capture_default_str();
  }
  app.add_option("--labels", labels,
                 "labels y [n] or [r, n_L] as .npy: finds conflicts, decides stabilizability")
      ->type_name(kInputFile);
  app.add_option("--outputs", outputs,
                 "the network's present outputs ŷ as .npy; a model computes its own")
      ->type_name(kInputFile);
  app.add_option("--outputs-per-sample", outputs_per_sample,
                 "n_L; taken from the model or the labels' shape where possible")
      ->check(positive());
  app.add_option("--reach-steps", reach_steps, "steps in which the labels are to be reached")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
}

analysis::PreflightOptions DesignOptions::load(const LoadedKernel& kernel) const {
  const int64_t n = kernel.theta.size(0);
  analysis::PreflightOptions options;
  options.learning_rate = learning_rate;
  options.loss = loss;
  options.q = q;
  options.rho = p;
  options.design = controller;
  options.reach_steps = reach_steps;
  options.inputs = kernel.inputs;
  int64_t width = outputs_per_sample;
  const auto read = [&](const std::string& path) {
    const torch::Tensor values = load_matrix(path, kernel.theta.device());
    CDT_REQUIRE(values.numel() == n, path, ": the kernel has ", n, " rows, this has ",
                values.numel(), " entries (shape ", values.sizes(), ")");
    if (values.dim() != 1) {
      CDT_REQUIRE(values.dim() == 2, path, ": must have shape [n] or [r, n_L], got ",
                  values.sizes());
      CDT_REQUIRE(width != 0 || values.size(0) > 1 || n == 1, path, ": shape ", values.sizes(),
                  " could be one sample or one row of many; say which with --outputs-per-sample");
      if (width == 0) width = values.size(1);
      CDT_REQUIRE(values.size(1) == width, path, ": must have ", width,
                  " outputs a sample, this has shape ", values.sizes());
    }
    return values.reshape({-1});
  };
  if (kernel.outputs) {
    CDT_REQUIRE(outputs.empty(), "--outputs goes with --kernel; the model computes its own");
    CDT_REQUIRE(outputs_per_sample == 0 || outputs_per_sample == kernel.outputs->size(1),
                "--outputs-per-sample is ", outputs_per_sample, ", the model has ",
                kernel.outputs->size(1), " outputs");
    width = kernel.outputs->size(1);
    options.outputs = kernel.outputs->to(torch::kFloat64).reshape({-1});
  } else if (!outputs.empty()) {
    options.outputs = read(outputs);
  }
  if (!labels.empty()) options.labels = read(labels);
  options.outputs_per_sample = std::max<int64_t>(1, width);
  return options;
}

}  // namespace cdt::cli
