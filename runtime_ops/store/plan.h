// What a plan needs of the pool, in pages.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime_ops/store/drop_order.h"
#include "runtime_ops/store/store.h"

namespace daf {

// Blocks of the pool have numbers of 32 bits.
inline constexpr size_t kMaxPages = (size_t{1} << 26) - 1;

// Throw std::invalid_argument.
void check_plan(const std::vector<StoreEntry>& plan);
void check_page_bytes(size_t page_bytes);
// Empty when a tensor can be such maps.
std::string why_unusable(const MapEncoding& map, int64_t n_elements);

// With min_bits or with `bits` everywhere; with every group exact on top.
size_t floor_pages(const std::vector<StoreEntry>& plan, size_t page_bytes);
size_t planned_pages(const std::vector<StoreEntry>& plan, size_t page_bytes);
size_t most_pages(const std::vector<StoreEntry>& plan, size_t page_bytes);

// The bits with which the plan fits into so many pages at the least error of the gradient: from
// `bits` everywhere, the plane that is worth the least for each byte goes, until the rest fits or
// all are at min_bits. `order` is of the plan's size, and empty before and after.
void fit_bits(const std::vector<StoreEntry>& plan, const std::vector<double>& sensitivities,
              size_t page_bytes, size_t n_pages, DropOrder& order, std::vector<int>& bits);
std::vector<int> fit_bits(const std::vector<StoreEntry>& plan, size_t page_bytes, size_t n_pages);

}  // namespace daf
