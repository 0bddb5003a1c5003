// Stands in for libFuzzer: every file of the folders given, and damages of each that depend on
// nothing but its bytes.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

using Bytes = std::vector<char>;
constexpr int kDamages = 3000;

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run(const Bytes& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Some bytes changed, a stretch repeated, another cut out, or the end missing.
Bytes damage(Bytes bytes, std::mt19937& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  const size_t start = below(bytes.size()), length = below(bytes.size() - start);
  const auto at = [&](size_t i) { return bytes.begin() + static_cast<ptrdiff_t>(i); };
  switch (below(4)) {
    case 0:
      for (size_t k = below(8) + 1; k > 0 && !bytes.empty(); --k) {
        bytes[below(bytes.size())] = static_cast<char>(random());
      }
      break;
    case 1: {
      const Bytes part(at(start), at(start + length));
      bytes.insert(at(below(bytes.size())), part.begin(), part.end());
      break;
    }
    case 2:
      bytes.erase(at(start), at(start + length));
      break;
    default:
      bytes.resize(start);
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  int n_files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      const Bytes bytes = read(entry.path());
      std::mt19937 random(static_cast<unsigned>(bytes.size()));
      run(bytes);
      for (int k = 0; k < kDamages; ++k) run(damage(bytes, random));
      ++n_files;
    }
  }
  std::printf("%d files, %d damages of each\n", n_files, kDamages);
  return n_files > 0 ? 0 : 1;
}
