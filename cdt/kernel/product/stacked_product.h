/// Batched products of several parameter groups.
///
/// On a GPU, launching a small product takes longer than computing it, and one with some hundred
/// rows leaves most of the GPU idle. So factors of layers of one width are stacked and multiplied
/// by one batched product, and what follows (the product of both sides, the sum over layers, Θ_g v
/// for the self-check) is one operation for all of them.
#pragma once

#include <cdt/kernel/product/block_product.h>

#include <vector>

namespace cdt::kernel {

/// Parameter groups, by index in a block, whose products are computed together.
using GroupStack = std::vector<size_t>;

/// One stack per group.
std::vector<GroupStack> single_stacks(const Factors& factors);
/// Assigns each group to a stack. Layers used once with the same number of positions are stacked,
/// those of one width next to each other; so are short rows of one length; all others are single.
std::vector<GroupStack> stacks_of(const Factors& factors);

/// add_product for all groups in a stack; `images` [groups of the stack, rows of a's block] or
/// undefined. Processes as many groups at once as temporaries of about `slice` entries allow.
void add_products(const torch::Tensor& cells, const SampleRange& a, const SampleRange& b,
                  const GroupStack& stack, double weight, int64_t slice,
                  const torch::Tensor& images);

/// Reorders `images` from stack order to group order.
torch::Tensor by_group(const torch::Tensor& images, const std::vector<GroupStack>& stacks);

}  // namespace cdt::kernel
