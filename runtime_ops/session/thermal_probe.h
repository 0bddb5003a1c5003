// How hot the device is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace daf {

// The highest temperature of all sensors of the kernel, in thousandths of a degree Celsius; none
// where the kernel does not tell. Takes milliseconds on a phone, which has dozens of sensors.
std::optional<int64_t> read_temperature_mc(const std::string& folder = "/sys/class/thermal");

}  // namespace daf
