// The shaders as pipelines: one per set of specialization constants, made when it is first used.
#pragma once

#include <array>
#include <map>

#include "runtime_ops/gpu/vulkan/device.h"

namespace daf::vulkan {

enum class Shader { kRange, kRangeSubgroups, kRanges, kRangesSubgroups, kDecode, kPack };

// Every shader has three buffers, and arguments as push constants.
struct View {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize offset = 0, size_bytes = 0;
};
using Views = std::array<View, 3>;
using Arguments = std::array<uint32_t, 8>;
using Constants = std::array<uint32_t, 4>;  // by constant_id; those that a shader lacks are ignored

class Pipelines {
 public:
  explicit Pipelines(const Device& device);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  // Records one dispatch. `place` is its number in the command buffer, below kMaxDispatches.
  void dispatch(VkCommandBuffer commands, int place, Shader shader, const Constants& constants,
                const Views& views, const Arguments& arguments, uint32_t n_workgroups);

  static constexpr int kMaxDispatches = 24;

 private:
  VkPipeline pipeline(Shader shader, const Constants& constants);
  void destroy();

  const Device& device_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  std::array<VkDescriptorSet, kMaxDispatches> sets_ = {};
  std::map<std::pair<Shader, Constants>, VkPipeline> pipelines_;
};

}  // namespace daf::vulkan
