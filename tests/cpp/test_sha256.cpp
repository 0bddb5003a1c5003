#include <gtest/gtest.h>

#include "runtime_ops/session/sha256.h"

namespace daf {
namespace {

std::string sha256(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.finish();
}

// The examples of FIPS 180-4.
TEST(Sha256, GivesTheStandardsDigests) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                   "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheStreamIsCut) {
  const std::string text(200, 'x');
  const std::string expected = sha256(text);
  for (size_t first = 0; first <= text.size(); ++first) {
    for (const size_t second : {size_t{0}, size_t{1}, size_t{63}, size_t{64}}) {
      const size_t middle = std::min(first + second, text.size());
      Sha256 hash;
      hash.update(text.data(), first);
      hash.update(text.data() + first, middle - first);
      hash.update(text.data() + middle, text.size() - middle);
      EXPECT_EQ(hash.finish(), expected) << first << " " << second;
    }
  }
}

}  // namespace
}  // namespace daf
