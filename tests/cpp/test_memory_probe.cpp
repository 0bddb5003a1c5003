#include <gtest/gtest.h>

#include "runtime_ops/session/memory_probe.h"

namespace daf {
namespace {

TEST(MemoryProbe, FindsFields) {
  const std::string status = "Name:\tx\nVmRSS:\t     12 kB\nXVmHWM:\t 9 kB\nVmHWM:\t 345 kB\n";
  EXPECT_EQ(find_kilobytes(status, "VmRSS"), 12 * 1024);
  EXPECT_EQ(find_kilobytes(status, "VmHWM"), 345 * 1024);
  EXPECT_EQ(find_kilobytes(status, "VmSwap"), 0);
  EXPECT_EQ(find_kilobytes("VmRSS: 7 kB", "VmRSS"), 7 * 1024);
}

TEST(MemoryProbe, ReadsThisProcess) {
  const ProcessMemory memory = read_process_memory();
  EXPECT_GT(memory.rss, 0);
  EXPECT_GE(memory.peak_rss, memory.rss);
  EXPECT_GT(memory.available, 0);
}

TEST(MemoryProbe, ReadsThisDevice) {
  const DeviceFacts facts = read_device_facts();
  EXPECT_FALSE(facts.os.empty());
  EXPECT_FALSE(facts.abi.empty());
  EXPECT_GE(facts.cores, 1);
  EXPECT_GT(facts.ram_bytes, 1 << 20);
}

}  // namespace
}  // namespace daf
