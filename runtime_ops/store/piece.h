// A sequence of bytes in blocks of the pool: whole pages, then a block for each bit of the rest,
// the largest first. Pieces of the same size have their boundaries at the same offsets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime_ops/store/page_pool.h"

namespace daf {

struct Piece {
  uint32_t n_units = 0;
  uint32_t n_blocks = 0;       // that it has now; all of them unless it is being made
  uint32_t* blocks = nullptr;  // first units; as many places as max_blocks() of its largest size

  static constexpr uint32_t kUnits = PagePool::kUnitsPerPage;

  static uint32_t max_blocks(uint32_t max_units) {
    return max_units / kUnits + PagePool::kPageOrder;
  }

  struct Span {
    uint8_t* data;
    size_t size_bytes;
  };

  // What lies together from `offset` on.
  Span at(const PagePool& pool, size_t offset) const {
    const size_t unit_bytes = pool.unit_bytes();
    const uint32_t unit = static_cast<uint32_t>(offset / unit_bytes);
    uint32_t block = unit / kUnits, start = block * kUnits, size = kUnits;
    if (block == n_units / kUnits) {  // in the rest
      for (uint32_t rest = n_units % kUnits; rest != 0; rest -= size, start += size, ++block) {
        size = uint32_t{1} << (31 - __builtin_clz(rest));
        if (unit < start + size) break;
      }
    }
    const size_t skipped = offset - start * unit_bytes;
    return {pool.address(blocks[block]) + skipped, size * unit_bytes - skipped};
  }

  void write(const PagePool& pool, size_t offset, const void* from, size_t size_bytes) const {
    copy(pool, offset, size_bytes, [&](uint8_t* data, size_t done, size_t n) {
      std::memcpy(data, static_cast<const uint8_t*>(from) + done, n);
    });
  }
  void read(const PagePool& pool, size_t offset, void* to, size_t size_bytes) const {
    copy(pool, offset, size_bytes, [&](const uint8_t* data, size_t done, size_t n) {
      std::memcpy(static_cast<uint8_t*>(to) + done, data, n);
    });
  }

  // body(block, order) for every block that there is.
  template <class Body>
  void for_each_block(Body body) const {
    for (uint32_t k = 0; k < n_blocks; ++k) body(blocks[k], order_of(k));
  }

  // All of `units`, or nothing: false when it does not fit, whatever is moved.
  bool allocate(PagePool& pool, uint32_t units, const PagePool::Moved& moved) {
    const size_t room = pool.budget_pages() - pool.used_pages() + pool.shared_free_units() / kUnits;
    if (units / kUnits > room) return false;
    n_units = units;
    const uint32_t total =
        units / kUnits + static_cast<uint32_t>(__builtin_popcount(units % kUnits));
    while (n_blocks < total) {
      const int order = order_of(n_blocks);
      uint32_t unit = pool.allocate(order);
      if (unit == PagePool::kNone && pool.make_free(order, moved)) unit = pool.allocate(order);
      if (unit == PagePool::kNone) {
        free(pool);
        return false;
      }
      blocks[n_blocks++] = unit;
    }
    return true;
  }

  void free(PagePool& pool) {
    for_each_block([&](uint32_t unit, int order) { pool.free(unit, order); });
    n_units = n_blocks = 0;
  }

  // What the pool calls when it has moved something.
  void relocate(uint32_t from, uint32_t to, uint32_t n_moved) {
    for (uint32_t k = n_units / kUnits; k < n_blocks; ++k) {
      if (blocks[k] - from < n_moved) blocks[k] += to - from;
    }
  }

 private:
  // body(data, done, n) for what lies together, piece by piece.
  template <class Body>
  void copy(const PagePool& pool, size_t offset, size_t size_bytes, Body body) const {
    for (size_t done = 0, n; done < size_bytes; done += n) {
      const Span span = at(pool, offset + done);
      n = std::min(span.size_bytes, size_bytes - done);
      body(span.data, done, n);
    }
  }

  int order_of(uint32_t block) const {
    if (block < n_units / kUnits) return PagePool::kPageOrder;
    uint32_t rest = n_units % kUnits;
    for (uint32_t k = n_units / kUnits; k < block; ++k) rest &= ~(1u << (31 - __builtin_clz(rest)));
    return 31 - __builtin_clz(rest);
  }
};

}  // namespace daf
