// Memory in pages and parts of pages, within a budget.
//
// A page has 64 units. A block is 2^order units, aligned to its size: order 6 is a page of its own,
// smaller blocks share pages. The free units of a shared page are the bits of one word, so the
// buddy system needs no lists of blocks. A piece of any size is made of whole pages and one block
// for each bit of what remains (piece.h): nothing is lost but the rest of a unit.
//
// Blocks that share pages may be moved together until what is free in shared pages is less than a
// page. So what is used never needs more pages than it has bytes for, whatever came and went.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime_ops/store/address_range.h"

namespace daf {

class PagePool {
 public:
  static constexpr int kUnitsPerPage = 64, kPageOrder = 6;
  static constexpr uint32_t kNone = UINT32_MAX;

  // Called after what was in `n_units` from `from` on was copied to `to`.
  using Moved = std::function<void(uint32_t from, uint32_t to, uint32_t n_units)>;

  // grow_step_bytes 0: adaptive. Throws std::bad_alloc when there are not so many addresses.
  // `commits_on_touch`: pages are backed when they are first written, not when the pool grows.
  PagePool(size_t page_bytes, size_t n_pages, size_t grow_step_bytes,
           bool commits_on_touch = false);

  // The unit that a new block of 2^order units starts with; kNone when it does not fit.
  uint32_t allocate(int order);
  void free(uint32_t unit, int order);

  // Moves blocks of shared pages together until one of 2^order units is free in them (or, for a
  // page, one page more). False when all that is free in them is not enough.
  bool make_free(int order, const Moved& moved);

  // Backs so many pages at once, the lowest ones.
  void commit(size_t n_pages);

  // More pages than this are never used or committed. What is used must fit.
  void set_budget(size_t n_pages);

  uint8_t* address(uint32_t unit) const { return range_.data() + size_t{unit} * unit_bytes(); }
  size_t page_bytes() const { return page_bytes_; }
  size_t unit_bytes() const { return page_bytes_ / kUnitsPerPage; }

  size_t budget_pages() const { return budget_; }
  size_t used_pages() const { return used_; }
  size_t committed_pages() const { return used_ + free_.size(); }
  size_t n_pages() const { return pages_.size(); }
  size_t shared_free_units() const { return shared_free_units_; }
  int64_t n_grows() const { return n_grows_; }
  int64_t n_moves() const { return n_moves_; }
  size_t bookkeeping_bytes() const;

  // The units that the pool believes to be used.
  size_t used_units() const;
  bool is_used(uint32_t unit, int order) const;
  bool is_valid(std::string* why) const;

 private:
  enum class State : uint8_t { kUncommitted, kFree, kWhole, kShared };
  struct Page {
    uint64_t free_units = 0;                  // of a shared page
    uint32_t previous = kNone, next = kNone;  // shared pages with the same largest free block
    State state = State::kUncommitted;
  };

  bool grow();
  void grow_by(size_t n_pages);
  uint32_t take_page();
  void give_page(uint32_t page);
  void set_free_units(uint32_t page, uint64_t free_units);
  void link(uint32_t page, int order);
  void unlink(uint32_t page, int order);
  void merge_two_free(int order, const Moved& moved);

  const size_t page_bytes_;
  const size_t grow_step_bytes_;
  const bool commits_on_touch_;
  AddressRange range_;
  std::vector<Page> pages_;
  std::vector<uint32_t> uncommitted_, free_;  // stacks; never longer than what is reserved for them
  std::array<uint32_t, kPageOrder> shared_;   // first of the pages whose largest free block is so
  std::array<size_t, kPageOrder> n_free_blocks_ = {};  // that are not part of a larger free one
  size_t budget_ = 0;
  size_t used_ = 0;  // pages
  size_t shared_free_units_ = 0;
  int64_t n_grows_ = 0, n_moves_ = 0;
};

}  // namespace daf
