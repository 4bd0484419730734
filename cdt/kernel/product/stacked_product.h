/// Products of several groups of parameters as one.
///
/// A GPU takes longer to begin a small product than to compute it, and one of some hundred rows
/// leaves most of it idle. So factors of layers are stacked: those of one width are multiplied by
/// one batched product, and what follows (the product of both sides, the sum over layers, Θ_g v for
/// the self-check) is an operation for all of them.
#pragma once

#include <cdt/kernel/product/block_product.h>

#include <vector>

namespace cdt::kernel {

/// Groups of parameters, by their places in a block, whose products are made together.
using GroupStack = std::vector<size_t>;

/// Each group by itself.
std::vector<GroupStack> single_stacks(const Factors& factors);
/// Each group in one stack: layers that are used once, of as many positions, those of one width
/// beside each other; short rows of one length; all others by themselves.
std::vector<GroupStack> stacks_of(const Factors& factors);

/// add_product of all groups in a stack; `images` [groups of the stack, rows of a's block] or
/// undefined. As many at once as temporaries of about `slice` entries allow.
void add_products(const torch::Tensor& cells, const SampleRange& a, const SampleRange& b,
                  const GroupStack& stack, double weight, int64_t slice,
                  const torch::Tensor& images);

/// `images` as they lie stack by stack, in the order of the groups.
torch::Tensor by_group(const torch::Tensor& images, const std::vector<GroupStack>& stacks);

}  // namespace cdt::kernel
