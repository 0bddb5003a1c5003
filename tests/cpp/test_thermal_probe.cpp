#include <gtest/gtest.h>

#include <filesystem>

#include "runtime_ops/session/thermal_probe.h"
#include "session_testing.h"

namespace daf {
namespace {

TEST(ThermalProbe, TakesTheHottestSensorThatWorks) {
  const TemporaryFolder folder;
  for (const auto& [name, text] :
       {std::pair("thermal_zone0", "41000\n"), std::pair("thermal_zone1", "-274000\n"),
        std::pair("thermal_zone2", "52500\n"), std::pair("thermal_zone3", "999999\n"),
        std::pair("cooling_device0", "90000\n"), std::pair("thermal_zone4", "")}) {
    std::filesystem::create_directory(folder.file(name));
    write_file(folder.file(name) + "/temp", text);
  }
  EXPECT_EQ(read_temperature_mc(folder.file("")), 52500);
}

TEST(ThermalProbe, KnowsNothingWithoutSensors) {
  EXPECT_EQ(read_temperature_mc("/nowhere"), std::nullopt);
}

}  // namespace
}  // namespace daf
