// What was learned about the speed of reduction, kept between runs: one file for all devices.
//
//   {"format":"daf-reduce-table","schema":1,"devices":{"avx2 2, vulkan NAME DRIVER":[
//     {"op":"ranges","size":16384,"ns":{"cpu":9000,"vulkan tree vec4":12000}}, ...]}}
#pragma once

#include <string>
#include <vector>

#include "runtime_ops/gpu/selector.h"

namespace daf {

// Of this device. Nothing when there is no such file, or it cannot be read: it is learned again.
std::vector<Selector::Entry> load_reduce_table(const std::string& path, const std::string& device);

// Other devices keep theirs. Makes the folder if need be. False when it cannot be written.
bool save_reduce_table(const std::string& path, const std::string& device,
                       const std::vector<Selector::Entry>& table);

}  // namespace daf
