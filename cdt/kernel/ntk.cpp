#include <cdt/core/error.h>
#include <cdt/kernel/check/checked_factors.h>
#include <cdt/kernel/factor/factored_jacobian.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/block_product.h>
#include <cdt/kernel/product/stacked_product.h>
#include <cdt/kernel/product/tiling.h>
#include <cdt/kernel/replay/recorded_kernel.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace cdt::kernel {
namespace {

using torch::Tensor;

int64_t rows_of_a_sample(const Factors& factors, size_t g) {
  int64_t positions = 1;
  for (const OuterProduct& term : factors.groups[g].terms) {
    positions = std::max(positions, term.left.size(2));
  }
  return factors.width * positions;
}

class Assembler {
 public:
  Assembler(CheckedFactors& source, const NtkOptions& options)
      : source_(source),
        options_(options),
        tiling_(tiling_for(source.model().device())),
        slice_(slice_entries(options.memory_bytes, source.model().device())) {}

  Ntk symmetric(const Tensor& x);
  /// The same, with the factors of a kernel of one block.
  KeptNtk symmetric_with_factors(const Tensor& x);
  Ntk unsettled(const Tensor& x);
  Ntk rectangular(const Tensor& x, const Tensor& x_prime);

 private:
  void allocate(int64_t rows, int64_t columns);
  Tensor cells(const Block& rows, const Block& columns) const;
  Tensor images_of(const Factors& factors) const;
  std::vector<GroupStack> stacks_for(const Factors& factors) const;
  void add_symmetric(const Tensor& cells, const SampleRange& samples, const GroupStack& stack,
                     const Tensor& images);
  Ntk result(const std::vector<Tensor>& outputs);
  Ntk finish(const std::vector<Tensor>& outputs);
  std::vector<Tensor> add_blocks(const Tensor& x, const std::vector<Block>& blocks);
  void report(int64_t done, int64_t total) const {
    if (options_.progress) options_.progress(done, total);
  }

  CheckedFactors& source_;
  const NtkOptions& options_;
  Tiling tiling_;
  int64_t slice_;  ///< entries of a temporary
  Tensor theta_;
  bool keeps_ = false;  ///< whether to keep the factors of a single block
  std::optional<Factors> kept_;
};

/// Copies the upper triangle to the lower one in blocks, since a second matrix may not fit in
/// memory.
void mirror(const Tensor& theta, int64_t at_a_time) {
  const int64_t n = theta.size(0);
  for (int64_t i = 0; i < n; i += at_a_time) {
    const int64_t rows = std::min(at_a_time, n - i);
    const Tensor left = theta.narrow(0, i, rows);
    if (i > 0) left.narrow(1, 0, i).copy_(theta.narrow(0, 0, i).narrow(1, i, rows).t());
    const Tensor diagonal = left.narrow(1, i, rows);
    diagonal.copy_(diagonal.triu() + diagonal.triu(1).t());
  }
}

void Assembler::allocate(int64_t rows, int64_t columns) {
  const int64_t width = source_.width();
  theta_ = torch::zeros(
      {rows * width, columns * width},
      torch::TensorOptions().dtype(options_.accumulate).device(source_.model().device()));
}

/// View of Θ for the rows of two blocks, [b, c, b′, c′].
Tensor Assembler::cells(const Block& rows, const Block& columns) const {
  const int64_t width = source_.width();
  return theta_.view({theta_.size(0) / width, width, theta_.size(1) / width, width})
      .narrow(0, rows.first, rows.samples)
      .narrow(1, rows.first_output, rows.outputs)
      .narrow(2, columns.first, columns.samples)
      .narrow(3, columns.first_output, columns.outputs);
}

/// Buffer for Θ_g v, for each parameter group, stack by stack; undefined without a check.
Tensor Assembler::images_of(const Factors& factors) const {
  if (!factors.probe.defined()) return {};
  return torch::zeros({static_cast<int64_t>(factors.groups.size()), factors.probe.size(0)},
                      factors.probe.options());
}

std::vector<GroupStack> Assembler::stacks_for(const Factors& factors) const {
  using Layers = NtkOptions::Layers;
  const bool together =
      options_.layers == Layers::kAuto ? theta_.is_cuda() : options_.layers == Layers::kTogether;
  return together ? stacks_of(factors) : single_stacks(factors);
}

/// Calls `add(stack, its images)`.
template <class Add>
void for_stacks(const std::vector<GroupStack>& stacks, const Tensor& images, const Add& add) {
  int64_t place = 0;
  for (const GroupStack& stack : stacks) {
    const auto count = static_cast<int64_t>(stack.size());
    add(stack, images.defined() ? images.narrow(0, place, count) : Tensor());
    place += count;
  }
}

void Assembler::add_symmetric(const Tensor& cells, const SampleRange& samples,
                              const GroupStack& stack, const Tensor& images) {
  const int64_t count = samples.count;
  if (count == 1 ||
      count * rows_of_a_sample(samples.factors, stack.front()) <= tiling_.whole_rows) {
    add_products(cells, samples, samples, stack, 1.0, slice_, images);
    return;
  }
  const int64_t half = count / 2;
  const int64_t rest = count - half;
  const SampleRange first{samples.factors, samples.first, half};
  const SampleRange second{samples.factors, samples.first + half, rest};
  const Tensor upper = cells.narrow(0, 0, half);
  add_symmetric(upper.narrow(2, 0, half), first, stack, images);
  add_products(upper.narrow(2, half, rest), first, second, stack, 2.0, slice_, images);
  add_symmetric(cells.narrow(0, half, rest).narrow(2, half, rest), second, stack, images);
}

Ntk Assembler::result(const std::vector<Tensor>& outputs) {
  const auto [lowest, highest] = torch::aminmax(theta_);  // both are NaN if an entry is
  source_.checks().add({lowest, highest}, [](const double* range) {
    if (!std::isfinite(range[0]) || !std::isfinite(range[1])) throw NumericalError(kKernelOverflow);
  });
  return {theta_, torch::cat(outputs), source_.coverage(), 0, source_.model().dtype()};
}

Ntk Assembler::finish(const std::vector<Tensor>& outputs) {
  Ntk ntk = result(outputs);
  source_.settle();
  source_.remember_plan();
  ntk.self_check = source_.self_check();
  return ntk;
}

Ntk Assembler::symmetric(const Tensor& x) {
  const int64_t samples = x.size(0);
  return finish(
      add_blocks(x, source_.plan(x, samples, kBlocksOfAKernel).blocks(samples, source_.width())));
}

KeptNtk Assembler::symmetric_with_factors(const Tensor& x) {
  keeps_ = true;
  Ntk ntk = symmetric(x);
  return {std::move(ntk), std::move(kept_)};
}

Ntk Assembler::unsettled(const Tensor& x) {
  const int64_t samples = x.size(0);
  const auto blocks = source_.plan(x, samples, kBlocksOfAKernel).blocks(samples, source_.width());
  if (blocks.size() != 1) throw StalePlan();
  return result(add_blocks(x, blocks));
}

/// Adds all pairs of blocks of a symmetric kernel; returns the outputs.
std::vector<Tensor> Assembler::add_blocks(const Tensor& x, const std::vector<Block>& blocks) {
  const int64_t samples = x.size(0);
  const auto total = static_cast<int64_t>(blocks.size() * (blocks.size() + 1) / 2);
  int64_t done = 0;
  std::vector<Tensor> outputs;
  allocate(samples, samples);
  for (size_t i = 0; i < blocks.size(); ++i) {
    Factors a = source_.factors_of(x, blocks[i]);
    if (blocks[i].first_output == 0) outputs.push_back(a.outputs);
    Tensor images = images_of(a);
    const std::vector<GroupStack> stacks = stacks_for(a);
    for_stacks(stacks, images, [&](const GroupStack& stack, const Tensor& of_stack) {
      add_symmetric(cells(blocks[i], blocks[i]), {a, 0, a.samples}, stack, of_stack);
    });
    source_.check(a, a, by_group(images, stacks));
    if (total > 1) source_.settle();
    report(++done, total);
    for (size_t j = i + 1; j < blocks.size(); ++j) {
      const Factors b = source_.factors_of(x, blocks[j]);
      source_.require_same_groups(a, b);
      images = images_of(a);
      const Tensor found = cells(blocks[i], blocks[j]);
      for_stacks(stacks, images, [&](const GroupStack& stack, const Tensor& of_stack) {
        add_products(found, {a, 0, a.samples}, {b, 0, b.samples}, stack, 1.0, slice_, of_stack);
      });
      source_.check(a, b, by_group(images, stacks));
      source_.settle();
      // A block of other outputs of the same samples lies on both sides of the diagonal.
      if (blocks[i].first == blocks[j].first) {
        cells(blocks[j], blocks[i]).copy_(found.permute({2, 3, 0, 1}));
      }
      report(++done, total);
    }
    if (keeps_ && total == 1) kept_ = std::move(a);
  }
  mirror(theta_, tiling_.mirrored_rows);
  return outputs;
}

Ntk Assembler::rectangular(const Tensor& x, const Tensor& x_prime) {
  const BlockPlan largest = source_.plan(x, x.size(0) + x_prime.size(0), kBlocksOfAKernel);
  source_.require_same_width(x_prime);
  const auto rows = largest.blocks(x.size(0), source_.width());
  const auto columns = largest.blocks(x_prime.size(0), source_.width());
  const auto total = static_cast<int64_t>(rows.size() * columns.size());
  int64_t done = 0;
  std::vector<Tensor> outputs;
  allocate(x.size(0), x_prime.size(0));
  for (const Block& row : rows) {
    const Factors a = source_.factors_of(x, row);
    const std::vector<GroupStack> stacks = stacks_for(a);
    if (row.first_output == 0) outputs.push_back(a.outputs);
    for (const Block& column : columns) {
      const Factors b = source_.factors_of(x_prime, column);
      source_.require_same_groups(a, b);
      const Tensor images = images_of(a);
      for_stacks(stacks, images, [&](const GroupStack& stack, const Tensor& of_stack) {
        add_products(cells(row, column), {a, 0, a.samples}, {b, 0, b.samples}, stack, 1.0, slice_,
                     of_stack);
      });
      source_.check(a, b, by_group(images, stacks));
      if (total > 1) source_.settle();
      report(++done, total);
    }
  }
  return finish(outputs);
}

}  // namespace

Ntk unsettled_ntk(CheckedFactors& source, const Tensor& x, const NtkOptions& options) {
  return Assembler(source, options).unsettled(x);
}

Ntk empirical_ntk(const Model& model, const Tensor& x, const NtkOptions& options) {
  require_samples(x);
  if (auto recorded = replayed_ntk(model, x, options)) return *std::move(recorded);
  return with_fallback(model, options, [&](CheckedFactors& source) {
    return Assembler(source, options).symmetric(x);
  });
}

KeptNtk ntk_with_factors(const Model& model, const Tensor& x, const NtkOptions& options) {
  require_samples(x);
  return with_fallback(model, options, [&](CheckedFactors& source) {
    return Assembler(source, options).symmetric_with_factors(x);
  });
}

Ntk empirical_ntk(const Model& model, const Tensor& x, const Tensor& x_prime,
                  const NtkOptions& options) {
  require_samples(x);
  require_samples(x_prime);
  return with_fallback(model, options, [&](CheckedFactors& source) {
    return Assembler(source, options).rectangular(x, x_prime);
  });
}

std::string Ntk::brief_report() const {
  int64_t by_rule = 0;
  int64_t unused = 0;
  std::map<std::string, int64_t> by_jacobian;
  for (const ParameterCoverage& p : coverage) {
    if (p.coverage == Coverage::kRule) ++by_rule;
    if (p.coverage == Coverage::kUnused) ++unused;
    if (p.coverage == Coverage::kJacobian) ++by_jacobian[p.reason];
  }
  std::string text = c10::str(by_rule, " parameter tensors by layer rules");
  for (const auto& [reason, count] : by_jacobian) {
    text += c10::str(", ", count, " by Jacobian rows (", reason, ")");
  }
  if (unused > 0) text += c10::str(", ", unused, " without influence");
  return text + c10::str("; self-check ", self_check);
}

}  // namespace cdt::kernel
