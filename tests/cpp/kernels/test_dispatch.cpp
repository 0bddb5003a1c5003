#include <cstdlib>
#include <stdexcept>

#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

TEST(Dispatch, ScalarIsAlwaysThereAndLast) {
  const std::vector<std::string> isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.back(), "scalar");
}

TEST(Dispatch, TheEnvironmentChoosesOtherwiseTheBest) {
  const char* forced = std::getenv("DAF_ISA");
  EXPECT_EQ(current_isa(), forced != nullptr ? forced : available_isas().front());
}

TEST(Dispatch, SelectsWhatItIsTold) {
  const std::string before = current_isa();
  for (const std::string& isa : available_isas()) {
    select_isa(isa);
    EXPECT_EQ(current_isa(), isa);
  }
  select_isa(before);
}

TEST(Dispatch, UnknownNamesAreRefusedWithTheListOfKnownOnes) {
  const std::string before = current_isa();
  for (const char* name : {"", "sse", "AVX2", "avx2 "}) {
    try {
      select_isa(name);
      ADD_FAILURE() << name;
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("'" + std::string(name) + "'"), std::string::npos) << message;
      EXPECT_NE(message.find("scalar"), std::string::npos) << message;
    }
  }
  EXPECT_EQ(current_isa(), before);
}

}  // namespace
}  // namespace daf::testing
