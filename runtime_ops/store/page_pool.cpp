#include "runtime_ops/store/page_pool.h"

#include <algorithm>
#include <cstring>

namespace daf {
namespace {

constexpr int kPageOrder = PagePool::kPageOrder;
constexpr uint64_t kAllFree = ~uint64_t{0};

// [order]: the first unit of each aligned block.
constexpr uint64_t kStarts[kPageOrder] = {~uint64_t{0},       0x5555555555555555,
                                          0x1111111111111111, 0x0101010101010101,
                                          0x0001000100010001, 0x0000000100000001};

struct FreeBlocks {
  // [order]: the first units of the free blocks that are not part of a larger one.
  std::array<uint64_t, kPageOrder> starts = {};

  // Of a page that is not wholly free.
  explicit FreeBlocks(uint64_t free_units) {
    uint64_t free = free_units;  // starts of free blocks of this order, in larger ones or not
    for (int order = 0; order < kPageOrder; ++order) {
      const int half = 1 << order;
      const uint64_t both = order + 1 < kPageOrder ? free & (free >> half) & kStarts[order + 1] : 0;
      starts[order] = free & ~(both | both << half);
      free = both;
    }
  }

  int largest() const {  // -1 when nothing is free
    int order = kPageOrder - 1;
    while (order >= 0 && starts[order] == 0) --order;
    return order;
  }
};

uint64_t units_of(uint32_t unit, int order) {
  return ((uint64_t{1} << (1 << order)) - 1) << unit % PagePool::kUnitsPerPage;
}

uint32_t page_of(uint32_t unit) { return unit / PagePool::kUnitsPerPage; }

}  // namespace

PagePool::PagePool(size_t page_bytes, size_t n_pages, size_t grow_step_bytes, bool commits_on_touch)
    : page_bytes_(page_bytes),
      grow_step_bytes_(grow_step_bytes),
      commits_on_touch_(commits_on_touch),
      range_(page_bytes * n_pages),
      pages_(n_pages),
      uncommitted_(n_pages) {
  for (size_t i = 0; i < n_pages; ++i) uncommitted_[i] = static_cast<uint32_t>(n_pages - 1 - i);
  free_.reserve(n_pages);
  shared_.fill(kNone);
}

// ---- pages --------------------------------------------------------------------------------

bool PagePool::grow() {
  const size_t committed = committed_pages();
  const size_t limit = std::min(budget_, n_pages());
  if (committed >= limit) return false;
  // Adaptive: by a 32nd of what there is. What is never used is then at most that, and the number
  // of times the pool grows is logarithmic.
  constexpr size_t kFraction = 32, kSmallestStepBytes = 64 << 10;
  const size_t step_bytes = grow_step_bytes_ != 0
                                ? grow_step_bytes_
                                : std::max(kSmallestStepBytes, committed * page_bytes_ / kFraction);
  grow_by(std::clamp<size_t>(step_bytes / page_bytes_, 1, limit - committed));
  return true;
}

void PagePool::commit(size_t n_pages) {
  n_pages = std::min({n_pages, budget_, this->n_pages()});
  if (n_pages > committed_pages()) grow_by(n_pages - committed_pages());
}

void PagePool::grow_by(size_t step) {
  uint32_t first = uncommitted_.back(), n = 0;  // a run of neighbours
  const auto commit = [&] {
    if (!commits_on_touch_) range_.commit(first * page_bytes_, n * page_bytes_);
  };
  const size_t n_free = free_.size();
  for (size_t i = 0; i < step; ++i) {
    const uint32_t page = uncommitted_.back();
    uncommitted_.pop_back();
    if (page != first + n) {
      commit();
      first = page, n = 0;
    }
    ++n;
    pages_[page].state = State::kFree;
    free_.push_back(page);
  }
  commit();
  std::reverse(free_.begin() + static_cast<std::ptrdiff_t>(n_free), free_.end());  // lowest first
  ++n_grows_;
}

uint32_t PagePool::take_page() {
  if (used_ >= budget_ || (free_.empty() && !grow())) return kNone;
  const uint32_t page = free_.back();
  free_.pop_back();
  ++used_;
  return page;
}

void PagePool::give_page(uint32_t page) {
  pages_[page].state = State::kFree;
  free_.push_back(page);
  --used_;
}

void PagePool::set_budget(size_t n_pages) {
  budget_ = n_pages;
  if (committed_pages() <= budget_) return;
  std::sort(free_.begin(), free_.end());  // the highest go, in runs of neighbours
  while (committed_pages() > budget_) {
    const uint32_t end = free_.back() + 1;
    uint32_t first = end;
    while (committed_pages() > budget_ && !free_.empty() && free_.back() + 1 == first) {
      first = free_.back();
      free_.pop_back();
      pages_[first].state = State::kUncommitted;
      uncommitted_.push_back(first);
    }
    range_.release(first * page_bytes_, (end - first) * page_bytes_);
  }
}

// ---- blocks -------------------------------------------------------------------------------

uint32_t PagePool::allocate(int order) {
  if (order == kPageOrder) {
    const uint32_t page = take_page();
    if (page == kNone) return kNone;
    pages_[page].state = State::kWhole;
    return page * kUnitsPerPage;
  }
  // The page whose largest free block is the smallest that will do.
  uint32_t page = kNone;
  for (int o = order; o < kPageOrder && page == kNone; ++o) page = shared_[o];
  if (page == kNone) {
    page = take_page();
    if (page == kNone) return kNone;
    pages_[page].state = State::kShared;
    const uint32_t unit = page * kUnitsPerPage;
    set_free_units(page, kAllFree & ~units_of(unit, order));
    return unit;
  }
  const FreeBlocks blocks(pages_[page].free_units);
  int o = order;
  while (blocks.starts[o] == 0) ++o;
  const uint32_t unit =
      page * kUnitsPerPage + static_cast<uint32_t>(__builtin_ctzll(blocks.starts[o]));
  set_free_units(page, pages_[page].free_units & ~units_of(unit, order));
  return unit;
}

void PagePool::free(uint32_t unit, int order) {
  const uint32_t page = page_of(unit);
  if (order == kPageOrder) return give_page(page);
  set_free_units(page, pages_[page].free_units | units_of(unit, order));
}

// A page of which nothing is used any more is shared no longer.
void PagePool::set_free_units(uint32_t page, uint64_t free_units) {
  Page& p = pages_[page];
  const FreeBlocks before(p.free_units);
  if (before.largest() >= 0) unlink(page, before.largest());
  for (int o = 0; o < kPageOrder; ++o) {
    n_free_blocks_[o] -= static_cast<size_t>(__builtin_popcountll(before.starts[o]));
  }
  shared_free_units_ -= static_cast<size_t>(__builtin_popcountll(p.free_units));
  if (free_units == kAllFree) {
    p.free_units = 0;
    return give_page(page);
  }
  p.free_units = free_units;
  const FreeBlocks after(free_units);
  if (after.largest() >= 0) link(page, after.largest());
  for (int o = 0; o < kPageOrder; ++o) {
    n_free_blocks_[o] += static_cast<size_t>(__builtin_popcountll(after.starts[o]));
  }
  shared_free_units_ += static_cast<size_t>(__builtin_popcountll(free_units));
}

void PagePool::link(uint32_t page, int order) {
  pages_[page].previous = kNone;
  pages_[page].next = shared_[order];
  if (shared_[order] != kNone) pages_[shared_[order]].previous = page;
  shared_[order] = page;
}

void PagePool::unlink(uint32_t page, int order) {
  const Page& p = pages_[page];
  if (p.previous == kNone) {
    shared_[order] = p.next;
  } else {
    pages_[p.previous].next = p.next;
  }
  if (p.next != kNone) pages_[p.next].previous = p.previous;
}

// ---- moving -------------------------------------------------------------------------------

bool PagePool::make_free(int order, const Moved& moved) {
  const size_t used_before = used_;
  const auto is_done = [&] {
    const auto begin = n_free_blocks_.begin() + order;
    return used_ < used_before ||
           std::any_of(begin, n_free_blocks_.end(), [](size_t n) { return n > 0; });
  };
  if (!is_done() && shared_free_units_ < size_t{1} << order) return false;
  while (!is_done()) {
    // All are smaller than what is wanted, and together they are not: two of them are equal.
    int half = order - 1;
    while (n_free_blocks_[half] < 2) --half;
    merge_two_free(half, moved);
  }
  return true;
}

// Makes one free block out of two that are half its size, by moving what is beside one of them.
void PagePool::merge_two_free(int order, const Moved& moved) {
  uint32_t found[2];
  int n_found = 0;
  for (int o = order; o < kPageOrder && n_found < 2; ++o) {
    for (uint32_t page = shared_[o]; page != kNone && n_found < 2; page = pages_[page].next) {
      uint64_t starts = FreeBlocks(pages_[page].free_units).starts[order];
      for (; starts != 0 && n_found < 2; starts &= starts - 1) {
        found[n_found++] = page * kUnitsPerPage + static_cast<uint32_t>(__builtin_ctzll(starts));
      }
    }
  }
  const uint32_t n_units = uint32_t{1} << order;
  const uint32_t to = found[0], from = found[1] ^ n_units;
  std::memcpy(address(to), address(from), n_units * unit_bytes());
  const uint64_t used = ~pages_[page_of(from)].free_units & units_of(from, order);
  const uint64_t used_there = used >> from % kUnitsPerPage << to % kUnitsPerPage;
  set_free_units(page_of(to), pages_[page_of(to)].free_units & ~used_there);
  set_free_units(page_of(from), pages_[page_of(from)].free_units | used);
  ++n_moves_;
  moved(from, to, n_units);
}

// ---- checks -------------------------------------------------------------------------------

size_t PagePool::bookkeeping_bytes() const {
  return pages_.capacity() * sizeof(Page) +
         (uncommitted_.capacity() + free_.capacity()) * sizeof(uint32_t);
}

size_t PagePool::used_units() const { return used_ * kUnitsPerPage - shared_free_units_; }

bool PagePool::is_used(uint32_t unit, int order) const {
  const Page& page = pages_[page_of(unit)];
  if (order == kPageOrder) return page.state == State::kWhole && unit % kUnitsPerPage == 0;
  return page.state == State::kShared && unit % (1u << order) == 0 &&
         (page.free_units & units_of(unit, order)) == 0;
}

bool PagePool::is_valid(std::string* why) const {
  const auto fail = [why](const std::string& text) {
    if (why != nullptr) *why = "pool: " + text;
    return false;
  };
  std::array<size_t, 4> n_in_state = {};
  std::array<size_t, kPageOrder> n_free_blocks = {}, n_linked = {}, n_largest = {};
  size_t free_units = 0;
  for (const Page& page : pages_) {
    ++n_in_state[static_cast<size_t>(page.state)];
    if (page.state != State::kShared) {
      if (page.free_units != 0) return fail("a page that is not shared has free units");
      continue;
    }
    if (page.free_units == kAllFree) return fail("nothing is used of a shared page");
    const FreeBlocks blocks(page.free_units);
    free_units += static_cast<size_t>(__builtin_popcountll(page.free_units));
    if (blocks.largest() >= 0) ++n_largest[blocks.largest()];
    for (int o = 0; o < kPageOrder; ++o) {
      n_free_blocks[o] += static_cast<size_t>(__builtin_popcountll(blocks.starts[o]));
    }
  }
  for (int o = 0; o < kPageOrder; ++o) {
    uint32_t previous = kNone;
    for (uint32_t page = shared_[o]; page != kNone; page = pages_[page].next) {
      if (pages_[page].previous != previous) return fail("a list of shared pages is broken");
      if (pages_[page].state != State::kShared ||
          FreeBlocks(pages_[page].free_units).largest() != o) {
        return fail("a page is in the wrong list of shared pages");
      }
      if (++n_linked[o] > n_pages()) return fail("a list of shared pages has no end");
      previous = page;
    }
  }
  const auto is_in_state = [this](State state) {
    return [this, state](uint32_t page) { return pages_[page].state == state; };
  };
  if (!std::all_of(free_.begin(), free_.end(), is_in_state(State::kFree)) ||
      !std::all_of(uncommitted_.begin(), uncommitted_.end(), is_in_state(State::kUncommitted))) {
    return fail("a page is in the wrong stack");
  }
  if (free_.size() != n_in_state[1] || uncommitted_.size() != n_in_state[0] ||
      used_ != n_in_state[2] + n_in_state[3]) {
    return fail("pages are counted wrongly");
  }
  if (n_linked != n_largest) return fail("a shared page is in no list");
  if (n_free_blocks != n_free_blocks_ || free_units != shared_free_units_) {
    return fail("free blocks are counted wrongly");
  }
  if (committed_pages() > budget_) return fail("more is committed than the budget");
  return true;
}

}  // namespace daf
