// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11):
// random numbers as a pure function of a key and a counter, so nothing has to be stored to
// draw the same ones again.
//
// Which bits hold what, here and in everything that draws numbers:
//
//   key      words 0, 1   seed (low, high)
//   counter  words 0, 1   `counter` (low, high): the place within the stream
//            words 2, 3   `stream` (low, high): what the numbers are for
//
//   user            stream                      counter
//   dropout         step                        layer << 32 | element / 4; the element takes
//                                               word element % 4
//   order of data   kDataOrderStream | epoch    draw / 4; the draw takes word draw % 4
//   channels        kChannelStream | step       layer << 32 | channel / 4; the channel takes
//                                               word channel % 4
#pragma once

#include <array>
#include <cstdint>

namespace daf {

// Keep the order of epoch e and the channels of step e apart from the dropout of step e.
inline constexpr uint64_t kDataOrderStream = uint64_t{1} << 63;
inline constexpr uint64_t kChannelStream = uint64_t{1} << 62;

struct Philox {
  explicit Philox(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  std::array<uint32_t, 4> operator()(uint64_t counter) const {
    std::array<uint32_t, 4> c = {low(counter), high(counter), low(stream_), high(stream_)};
    uint32_t key0 = low(seed_), key1 = high(seed_);
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53} * c[0];
      const uint64_t product1 = uint64_t{0xCD9E8D57} * c[2];
      c = {high(product1) ^ c[1] ^ key0, low(product1), high(product0) ^ c[3] ^ key1,
           low(product0)};
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    return c;
  }

 private:
  static uint32_t low(uint64_t v) { return static_cast<uint32_t>(v); }
  static uint32_t high(uint64_t v) { return static_cast<uint32_t>(v >> 32); }

  uint64_t seed_, stream_;
};

}  // namespace daf
