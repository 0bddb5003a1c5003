#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "runtime_ops/store/page_pool.h"
#include "runtime_ops/store/piece.h"

namespace daf::testing {
namespace {

constexpr size_t kPage = 16384;
const PagePool::Moved kNothingMoves = [](uint32_t, uint32_t, uint32_t) { FAIL(); };

#define EXPECT_VALID(pool)                     \
  do {                                         \
    std::string why;                           \
    EXPECT_TRUE((pool).is_valid(&why)) << why; \
  } while (false)

TEST(PagePool, PagesComeFromTheStartOfTheRangeUpToTheBudget) {
  PagePool pool(kPage, 10, kPage);
  pool.set_budget(3);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(pool.allocate(6), i * 64);
  EXPECT_EQ(pool.allocate(6), PagePool::kNone);
  EXPECT_EQ(pool.allocate(0), PagePool::kNone);
  pool.set_budget(20);
  for (int i = 3; i < 10; ++i) EXPECT_NE(pool.allocate(6), PagePool::kNone);
  EXPECT_EQ(pool.allocate(6), PagePool::kNone);  // the range has no more
  EXPECT_EQ(pool.used_pages(), 10u);
  EXPECT_VALID(pool);
}

TEST(PagePool, SmallBlocksShareAPage) {
  PagePool pool(kPage, 4, kPage);
  pool.set_budget(4);
  std::vector<std::pair<uint32_t, int>> blocks;
  for (const int order : {5, 4, 3, 2, 1, 0, 0}) blocks.emplace_back(pool.allocate(order), order);
  EXPECT_EQ(pool.used_pages(), 1u);
  EXPECT_EQ(pool.shared_free_units(), 0u);
  for (const auto& [unit, order] : blocks) {
    EXPECT_EQ(unit % (1u << order), 0u);
    EXPECT_TRUE(pool.is_used(unit, order));
  }
  EXPECT_VALID(pool);
  EXPECT_EQ(pool.allocate(0), 64u);  // the next page
  for (const auto& [unit, order] : blocks) pool.free(unit, order);
  EXPECT_EQ(pool.used_pages(), 1u);
  EXPECT_VALID(pool);
}

TEST(PagePool, ABlockGoesWhereItFitsBest) {
  PagePool pool(kPage, 4, kPage);
  pool.set_budget(4);
  const uint32_t half = pool.allocate(5), quarter = pool.allocate(4);  // 16 units are left
  const uint32_t other = pool.allocate(5);                             // 32 are left there
  EXPECT_EQ(half / 64, quarter / 64);
  EXPECT_NE(other / 64, half / 64);
  EXPECT_EQ(pool.allocate(4) / 64, half / 64);
  EXPECT_EQ(pool.allocate(5) / 64, other / 64);
  EXPECT_VALID(pool);
}

TEST(PagePool, FixedAndAdaptiveSteps) {
  PagePool fixed(kPage, 1000, 10 * kPage), adaptive(kPage, 1000, 0);
  fixed.set_budget(995);
  adaptive.set_budget(995);
  for (int i = 0; i < 500; ++i) {
    fixed.allocate(6);
    adaptive.allocate(6);
    EXPECT_LE(adaptive.committed_pages() - adaptive.used_pages(), adaptive.used_pages() / 32 + 4);
  }
  EXPECT_EQ(fixed.n_grows(), 50);
  EXPECT_EQ(fixed.committed_pages(), 500u);
  EXPECT_LT(adaptive.n_grows(), 90);
  for (int i = 500; i < 995; ++i) fixed.allocate(6);
  EXPECT_EQ(fixed.committed_pages(), 995u);  // the last step ends at the budget
  EXPECT_VALID(fixed);
  EXPECT_VALID(adaptive);
}

TEST(PagePool, ALowerBudgetGivesPagesBack) {
  PagePool pool(kPage, 100, 0);
  pool.set_budget(100);
  std::vector<uint32_t> pages;
  for (int i = 0; i < 100; ++i) {
    pages.push_back(pool.allocate(6));
    std::memset(pool.address(pages.back()), 1, kPage);
  }
  for (int i = 0; i < 100; i += 3) pool.free(pages[i], 6);
  EXPECT_EQ(pool.committed_pages(), 100u);
  pool.set_budget(66);
  EXPECT_EQ(pool.committed_pages(), 66u);
  EXPECT_VALID(pool);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(*pool.address(pages[i]), i % 3 == 0 ? 0 : 1);  // what was given back reads as zero
  }
  EXPECT_EQ(pool.allocate(6), PagePool::kNone);
  pool.set_budget(68);
  EXPECT_NE(pool.allocate(6), PagePool::kNone);
  EXPECT_VALID(pool);
}

TEST(PagePool, MovingMakesAPageOfWhatIsFreeInSharedPages) {
  PagePool pool(kPage, 4, kPage);
  pool.set_budget(2);
  // Two pages of single units, every second one free, each with its number in it.
  std::map<uint32_t, uint8_t> content;
  std::vector<uint32_t> units;
  for (int i = 0; i < 128; ++i) units.push_back(pool.allocate(0));
  for (int i = 0; i < 128; ++i) {
    if (i % 2 == 0) {
      pool.free(units[i], 0);
    } else {
      content[units[i]] = static_cast<uint8_t>(i);
      std::memset(pool.address(units[i]), i, pool.unit_bytes());
    }
  }
  EXPECT_EQ(pool.allocate(1), PagePool::kNone);
  const PagePool::Moved moved = [&](uint32_t from, uint32_t to, uint32_t n) {
    std::map<uint32_t, uint8_t> after;
    for (const auto& [unit, value] : content) {
      const bool is_moved = unit >= from && unit < from + n;
      after[is_moved ? unit - from + to : unit] = value;
    }
    content = after;
    EXPECT_EQ(content.size(), 64u);
  };
  EXPECT_TRUE(pool.make_free(1, moved));
  EXPECT_EQ(pool.n_moves(), 1);
  EXPECT_TRUE(pool.make_free(6, moved));
  EXPECT_EQ(pool.used_pages(), 1u);
  EXPECT_FALSE(pool.make_free(6, moved));
  EXPECT_FALSE(pool.make_free(0, moved));
  EXPECT_NE(pool.allocate(6), PagePool::kNone);
  EXPECT_VALID(pool);
  for (const auto& [unit, value] : content) {
    EXPECT_TRUE(pool.is_used(unit, 0));
    for (size_t i = 0; i < pool.unit_bytes(); ++i) ASSERT_EQ(pool.address(unit)[i], value);
  }
}

// Pieces of any size come and go; whatever fits by its bytes is found room for.
TEST(PagePool, RandomPiecesKeepTheirBytes) {
  for (uint32_t seed = 0; seed < 5; ++seed) {
    std::mt19937 random(seed);
    const size_t n_pages = 20;
    PagePool pool(kPage, n_pages, 0);
    pool.set_budget(n_pages);
    struct Held {
      std::vector<uint32_t> places = std::vector<uint32_t>(64);
      Piece piece;
      uint8_t value;
    };
    std::vector<std::unique_ptr<Held>> held;
    const PagePool::Moved moved = [&](uint32_t from, uint32_t to, uint32_t n) {
      for (const auto& h : held) h->piece.relocate(from, to, n);
    };
    size_t whole = 0, rest = 0;
    for (int step = 0; step < 300; ++step) {
      const uint32_t units = random() % (random() % 2 == 0 ? 60 : 400);
      held.push_back(std::make_unique<Held>());
      Held& h = *held.back();
      h.piece.blocks = h.places.data();
      h.value = static_cast<uint8_t>(random());
      const size_t needed = whole + units / 64 + (rest + units % 64 + 63) / 64;
      const bool is_there = h.piece.allocate(pool, units, moved);
      ASSERT_EQ(is_there, needed <= n_pages) << "seed " << seed << ", step " << step;
      if (is_there) {
        whole += units / 64, rest += units % 64;
        for (size_t at = 0; at < units * pool.unit_bytes();) {
          const Piece::Span span = h.piece.at(pool, at);
          std::memset(span.data, h.value, span.size_bytes);
          at += span.size_bytes;
        }
      } else {
        EXPECT_EQ(h.piece.n_blocks, 0u);
        held.pop_back();
      }
      if (!held.empty() && (!is_there || random() % 3 == 0)) {
        std::swap(held[random() % held.size()], held.back());
        Piece& piece = held.back()->piece;
        for (size_t at = 0; at < piece.n_units * pool.unit_bytes();) {
          const Piece::Span span = piece.at(pool, at);
          const auto is_other = [&](uint8_t byte) { return byte != held.back()->value; };
          ASSERT_TRUE(std::none_of(span.data, span.data + span.size_bytes, is_other))
              << "seed " << seed << ", step " << step;
          at += span.size_bytes;
        }
        whole -= piece.n_units / 64, rest -= piece.n_units % 64;
        piece.free(pool);
        held.pop_back();
      }
      EXPECT_VALID(pool);
    }
  }
}

TEST(Piece, OffsetsFindTheirBlock) {
  PagePool pool(kPage, 4, 0);
  pool.set_budget(4);
  std::vector<uint32_t> places(8);
  Piece piece;
  piece.blocks = places.data();
  ASSERT_TRUE(piece.allocate(pool, 64 + 32 + 4 + 1, kNothingMoves));
  EXPECT_EQ(piece.n_blocks, 4u);
  const size_t unit = pool.unit_bytes();
  const auto expect_at = [&](size_t offset, int block, size_t in_block, size_t left) {
    const Piece::Span span = piece.at(pool, offset);
    EXPECT_EQ(span.data, pool.address(places[block]) + in_block) << offset;
    EXPECT_EQ(span.size_bytes, left) << offset;
  };
  expect_at(0, 0, 0, kPage);
  expect_at(kPage - 4, 0, kPage - 4, 4);
  expect_at(kPage, 1, 0, 32 * unit);
  expect_at(kPage + 31 * unit + 8, 1, 31 * unit + 8, unit - 8);
  expect_at(kPage + 32 * unit, 2, 0, 4 * unit);
  expect_at(kPage + 36 * unit + 32, 3, 32, unit - 32);
}

}  // namespace
}  // namespace daf::testing
