// How fast a CSV file of mixed types loads: what `./dev bench-csv` prints. A million rows by 80
// columns unless told otherwise.
#include <benchmark/benchmark.h>
#include <cdt/data/csv.h>
#include <cdt/data/split.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <string>

#include "support/temp_folder.h"

namespace cdt::bench {
namespace {

constexpr int64_t kColumns = 80;
constexpr double kBar = 200;  // MB/s

/// Per ten columns: four integers, two prices, one measurement of six decimals, two categories, one
/// number that is often missing.
void write_table(const std::filesystem::path& path, int64_t rows) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) throw std::runtime_error("cannot write " + path.string());
  std::mt19937_64 generator(1);
  fmt::memory_buffer buffer;
  const auto out = std::back_inserter(buffer);
  for (int64_t c = 0; c < kColumns; ++c) fmt::format_to(out, "{}c{}", c > 0 ? "," : "", c);
  fmt::format_to(out, "\n");
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < kColumns; ++c) {
      if (c > 0) buffer.push_back(',');
      const uint64_t draw = generator();
      switch (c % 10) {
        case 4:
        case 5:
          fmt::format_to(out, "{}.{:02}", draw % 100000, draw >> 32 & 63);
          break;
        case 6:
          fmt::format_to(out, "-0.{:06}", draw % 1000000);
          break;
        case 7:
          fmt::format_to(out, "class{}", draw % 12);
          break;
        case 8:
          fmt::format_to(out, "\"street {}, north\"", draw % 300);
          break;
        case 9:
          if (draw % 4 > 0) fmt::format_to(out, "{}", draw >> 40);
          break;
        default:
          fmt::format_to(out, "{}", draw % 10000);
      }
    }
    buffer.push_back('\n');
    if (buffer.size() > (1 << 20) || row + 1 == rows) {
      std::fwrite(buffer.data(), 1, buffer.size(), file);
      buffer.clear();
    }
  }
  if (std::fclose(file) != 0) throw std::runtime_error("cannot write " + path.string());
}

/// Keeps the fastest repetition, in seconds of the processor: other work hardly counts.
class Fastest : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration)
        seconds_.push_back(run.cpu_accumulated_time / static_cast<double>(run.iterations));
    }
  }
  double best() const { return *std::min_element(seconds_.begin(), seconds_.end()); }
  double worst() const { return *std::max_element(seconds_.begin(), seconds_.end()); }

 private:
  std::vector<double> seconds_;
};

int run(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  if (rows < 1 || argc > 2) {
    fmt::print(stderr, "usage: cdt_bench_csv [ROWS]\n");
    return 2;
  }
  const test::TempFolder folder;
  const auto path = folder / "table.csv";
  write_table(path, rows);
  const double megabytes = 1e-6 * static_cast<double>(std::filesystem::file_size(path));
  bool complete = true;
  benchmark::RegisterBenchmark("read_csv",
                               [&](benchmark::State& state) {
                                 for (auto _ : state) {
                                   const auto table = data::read_csv(path);
                                   complete = complete && table.rows() == rows &&
                                              table.columns.size() == kColumns;
                                 }
                               })
      ->Iterations(1)
      ->Repetitions(3);
  Fastest times;
  benchmark::RunSpecifiedBenchmarks(&times);
  const bool met = complete && megabytes / times.best() >= kBar;
  fmt::print(
      "CSV, {} rows × {} columns, {:.0f} MB: {:.2f} s of the processor (slowest of three {:.2f} "
      "s)\n",
      rows, kColumns, megabytes, times.best(), times.worst());
  fmt::print("  {:.0f} MB/s, bar ≥ {:g} MB/s: {}\n", megabytes / times.best(), kBar,
             met ? "met" : "NOT MET");
  return 0;
}

}  // namespace
}  // namespace cdt::bench

int main(int argc, char** argv) {
  try {
    return cdt::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cdt_bench_csv: %s\n", error.what());
    return 1;
  }
}
