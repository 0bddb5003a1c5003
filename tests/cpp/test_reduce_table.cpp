#include <gtest/gtest.h>

#include "runtime_ops/session/reduce_table.h"
#include "session_testing.h"

namespace daf {
namespace {

const std::vector<Selector::Entry> kTable = {
    {ReduceOp::kRanges, 16384, {{"cpu", 9000}, {"vulkan tree vec4", 12000}}},
    {ReduceOp::kDecode, 4, {{"cpu", 1}, {"vulkan tree", 7}}}};

TEST(ReduceTable, IsWhatItSays) {
  const TemporaryFolder folder;
  const std::string path = folder.file("table.json");
  ASSERT_TRUE(save_reduce_table(path, "avx2 2, vulkan X", kTable));
  EXPECT_EQ(read_file(path),
            R"({"format":"daf-reduce-table","schema":1,"devices":{"avx2 2, vulkan X":[)"
            R"({"op":"ranges","size":16384,"ns":{"cpu":9000,"vulkan tree vec4":12000}},)"
            R"({"op":"decode","size":4,"ns":{"cpu":1,"vulkan tree":7}}]}})"
            "\n");
}

TEST(ReduceTable, EachDeviceHasItsOwn) {
  const TemporaryFolder folder;
  const std::string path = folder.file("table.json");
  save_reduce_table(path, "one", kTable);
  save_reduce_table(path, "two", {kTable[1]});
  save_reduce_table(path, "one", {kTable[0]});
  const auto one = load_reduce_table(path, "one");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].op, ReduceOp::kRanges);
  EXPECT_EQ(one[0].size, 16384);
  ASSERT_EQ(one[0].timings.size(), 2u);
  EXPECT_EQ(one[0].timings[1].variant, "vulkan tree vec4");
  EXPECT_EQ(one[0].timings[1].ns, 12000);
  EXPECT_EQ(load_reduce_table(path, "two").size(), 1u);
  EXPECT_EQ(load_reduce_table(path, "three").size(), 0u);
}

TEST(ReduceTable, WhatCannotBeReadIsLearnedAgain) {
  const TemporaryFolder folder;
  const std::string path = folder.file("table.json");
  EXPECT_TRUE(load_reduce_table(path, "one").empty());
  for (const char* text :
       {"", "{", "[]", R"({"format":"daf-reduce-table","schema":2,"devices":{}})",
        R"({"format":"daf-reduce-table","schema":1,"devices":{"one":[{"op":"fly"}]}})",
        R"({"format":"daf-reduce-table","schema":1,"devices":{"one":7}})"}) {
    write_file(path, text);
    EXPECT_TRUE(load_reduce_table(path, "one").empty()) << text;
  }
  EXPECT_TRUE(save_reduce_table(path, "one", kTable));
  EXPECT_EQ(load_reduce_table(path, "one").size(), 2u);
  EXPECT_TRUE(save_reduce_table(folder.file("new/table.json"), "one", kTable));
  EXPECT_FALSE(save_reduce_table(folder.file("table.json/no"), "one", kTable));
}

}  // namespace
}  // namespace daf
