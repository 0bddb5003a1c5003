// A Vulkan device as the reducer needs it: one queue, buffers that the host sees, one command
// buffer that is run to its end. All errors are GpuErrors.
#pragma once

#include <volk.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime_ops/gpu/options.h"

namespace daf::vulkan {

void check(VkResult result, const char* action);

class Device;

// Memory that the host and the device see.
class Buffer {
 public:
  Buffer(const Device& device, VkDeviceSize size_bytes, VkMemoryPropertyFlags preferred);
  // The host's own memory; whole pages of it.
  Buffer(const Device& device, void* data, VkDeviceSize size_bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  VkBuffer handle() const { return buffer_; }
  uint8_t* data() const { return data_; }
  VkDeviceSize size_bytes() const { return size_bytes_; }

 private:
  void create(const void* next);
  void allocate(const void* next, uint32_t memory_types, VkMemoryPropertyFlags preferred,
                VkDeviceSize size_bytes);
  void destroy();

  const Device& device_;
  VkDeviceSize size_bytes_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  uint8_t* data_ = nullptr;
};

class Device {
 public:
  explicit Device(const GpuOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  VkDevice handle() const { return device_; }
  const VkPhysicalDeviceMemoryProperties& memory() const { return memory_; }
  const VkPhysicalDeviceLimits& limits() const { return properties_.limits; }
  const ReduceDevice& info() const { return info_; }
  VkDeviceSize import_alignment() const { return import_alignment_; }  // 0: cannot import

  // record(command_buffer); returns when the device has done it.
  template <class Record>
  void run(Record record) {
    begin();
    record(commands_);
    end_and_wait();
  }
  // What the shaders before have written is there for those after.
  void barrier(VkCommandBuffer commands, VkAccessFlags to = VK_ACCESS_SHADER_READ_BIT,
               VkPipelineStageFlags to_stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) const;
  // What was filled is there for shaders that add to it.
  void barrier_after_fill(VkCommandBuffer commands) const;

 private:
  void make_instance(const GpuOptions& options);
  void choose_physical_device();
  void read_properties(const GpuOptions& options);
  void make_device();
  void begin();
  void end_and_wait();
  void destroy();

  std::function<void(const std::string&)> on_message_;
  GpuFaults faults_;
  int n_calls_ = 0;
  bool is_hung_ = false;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_ = {};
  VkPhysicalDeviceMemoryProperties memory_ = {};
  ReduceDevice info_;
  VkDeviceSize import_alignment_ = 0;
  uint32_t queue_family_ = 0;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
};

}  // namespace daf::vulkan
