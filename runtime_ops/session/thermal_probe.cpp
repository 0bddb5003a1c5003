#include "runtime_ops/session/thermal_probe.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace daf {
namespace {

// Sensors that are off or broken report 0, -274000 or more than silicon survives.
constexpr int64_t kLowestMc = 1'000, kHighestMc = 150'000;

}  // namespace

std::optional<int64_t> read_temperature_mc(const std::string& folder) {
  std::optional<int64_t> highest;
  std::error_code ignored;  // a folder that may not be read has no sensors
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    int64_t value = 0;
    if (entry.path().filename().string().rfind("thermal_zone", 0) != 0) continue;
    if (!(std::ifstream(entry.path() / "temp") >> value)) continue;
    if (value < kLowestMc || value > kHighestMc) continue;
    highest = std::max(highest.value_or(value), value);
  }
  return highest;
}

}  // namespace daf
