// SHA-256 (FIPS 180-4) of a stream of bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace daf {

class Sha256 {
 public:
  void update(const void* data, size_t size_bytes);
  // Lower-case hex; nothing may follow.
  std::string finish();

 private:
  void compress(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_;
  size_t n_pending_ = 0;
  uint64_t n_total_ = 0;
};

}  // namespace daf
