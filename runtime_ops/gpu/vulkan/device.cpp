#include "runtime_ops/gpu/vulkan/device.h"

#include <algorithm>
#include <cstring>

namespace daf::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr uint64_t kTimeoutNs = 20'000'000'000;  // drivers reset a device sooner

[[noreturn]] void missing(const std::string& why) {
  throw GpuError(GpuError::Kind::kMissing, "cannot use Vulkan: " + why);
}

bool has_extension(VkPhysicalDevice device, const char* name) {
  uint32_t n = 0;
  vkEnumerateDeviceExtensionProperties(device, nullptr, &n, nullptr);
  std::vector<VkExtensionProperties> extensions(n);
  vkEnumerateDeviceExtensionProperties(device, nullptr, &n, extensions.data());
  return std::any_of(extensions.begin(), extensions.end(), [&](const VkExtensionProperties& e) {
    return std::strcmp(e.extensionName, name) == 0;
  });
}

VkBool32 VKAPI_PTR on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                              VkDebugUtilsMessageTypeFlagsEXT,
                              const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  (*static_cast<std::function<void(const std::string&)>*>(user))(data->pMessage);
  return VK_FALSE;
}

int32_t compute_queue_family(VkPhysicalDevice device) {
  uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &n, families.data());
  for (uint32_t i = 0; i < n; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace

void check(VkResult result, const char* action) {
  if (result == VK_SUCCESS) return;
  const std::string what =
      std::string("Vulkan cannot ") + action + " (VkResult " + std::to_string(result) + ")";
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_MEMORY_MAP_FAILED:
      throw GpuError(GpuError::Kind::kOutOfMemory, what + ": out of memory");
    case VK_ERROR_DEVICE_LOST:
    case VK_TIMEOUT:
      throw GpuError(GpuError::Kind::kLost, what + ": the device is lost");
    default:
      throw GpuError(GpuError::Kind::kFailed, what);
  }
}

// ---- memory ------------------------------------------------------------------------------------

Buffer::Buffer(const Device& device, VkDeviceSize size_bytes, VkMemoryPropertyFlags preferred)
    : device_(device), size_bytes_(size_bytes) {
  try {
    create(nullptr);
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device_.handle(), buffer_, &needs);
    allocate(nullptr, needs.memoryTypeBits, preferred, needs.size);
    void* data = nullptr;
    check(vkMapMemory(device_.handle(), memory_, 0, VK_WHOLE_SIZE, 0, &data), "map memory");
    data_ = static_cast<uint8_t*>(data);
  } catch (...) {
    destroy();
    throw;
  }
}

Buffer::Buffer(const Device& device, void* data, VkDeviceSize size_bytes)
    : device_(device), size_bytes_(size_bytes) {
  constexpr auto kHandle = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  try {
    VkMemoryHostPointerPropertiesEXT host = {VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT,
                                             nullptr, 0};
    check(vkGetMemoryHostPointerPropertiesEXT(device_.handle(), kHandle, data, &host),
          "look at memory of the host");
    const VkExternalMemoryBufferCreateInfo external = {
        VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, nullptr, kHandle};
    create(&external);
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device_.handle(), buffer_, &needs);
    const VkImportMemoryHostPointerInfoEXT import = {
        VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT, nullptr, kHandle, data};
    allocate(&import, needs.memoryTypeBits & host.memoryTypeBits,
             VK_MEMORY_PROPERTY_HOST_CACHED_BIT, size_bytes);
    data_ = static_cast<uint8_t*>(data);
  } catch (...) {
    destroy();
    throw;
  }
}

Buffer::~Buffer() { destroy(); }

void Buffer::create(const void* next) {
  VkBufferCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.pNext = next;
  info.size = size_bytes_;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  check(vkCreateBuffer(device_.handle(), &info, nullptr, &buffer_), "make a buffer");
}

// Coherent: no flushes, whoever wrote last.
void Buffer::allocate(const void* next, uint32_t memory_types, VkMemoryPropertyFlags preferred,
                      VkDeviceSize size_bytes) {
  constexpr VkMemoryPropertyFlags kNeeded =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkPhysicalDeviceMemoryProperties& memory = device_.memory();
  int32_t chosen = -1;
  for (const VkMemoryPropertyFlags wanted : {kNeeded | preferred, kNeeded}) {
    for (uint32_t i = 0; i < memory.memoryTypeCount && chosen < 0; ++i) {
      const bool fits = (memory.memoryTypes[i].propertyFlags & wanted) == wanted;
      if ((memory_types >> i & 1) != 0 && fits) chosen = static_cast<int32_t>(i);
    }
  }
  if (chosen < 0) throw GpuError(GpuError::Kind::kFailed, "Vulkan has no memory that both see");
  const VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, next, size_bytes,
                                     static_cast<uint32_t>(chosen)};
  check(vkAllocateMemory(device_.handle(), &info, nullptr, &memory_), "allocate memory");
  check(vkBindBufferMemory(device_.handle(), buffer_, memory_, 0), "bind memory");
}

void Buffer::destroy() {
  vkDestroyBuffer(device_.handle(), buffer_, nullptr);
  vkFreeMemory(device_.handle(), memory_, nullptr);
}

// ---- the device --------------------------------------------------------------------------------

Device::Device(const GpuOptions& options)
    : on_message_(options.on_validation_message), faults_(options.faults) {
  try {
    make_instance(options);
    choose_physical_device();
    read_properties(options);
    make_device();
  } catch (...) {
    destroy();
    throw;
  }
}

Device::~Device() { destroy(); }

void Device::make_instance(const GpuOptions& options) {
  if (volkInitialize() != VK_SUCCESS) missing("its loader (libvulkan.so.1) is not installed");
  if (volkGetInstanceVersion() < VK_API_VERSION_1_1) missing("its loader is older than Vulkan 1.1");
  const VkApplicationInfo application = {
      VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, "daf", 1, "daf", 1, VK_API_VERSION_1_1};
  VkInstanceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;

  constexpr VkValidationFeatureEnableEXT kEnabled[] = {
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  const VkValidationFeaturesEXT features = {
      VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, nullptr, 1, kEnabled, 0, nullptr};
  const char* extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                              VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
  if (options.on_validation_message) {
    info.pNext = &features;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kValidationLayer;
    info.enabledExtensionCount = 2;
    info.ppEnabledExtensionNames = extensions;
  }
  const VkResult result = vkCreateInstance(&info, nullptr, &instance_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) missing("no driver is installed");
  if (result == VK_ERROR_LAYER_NOT_PRESENT) missing("its validation layer is not installed");
  check(result, "start");
  volkLoadInstance(instance_);
  if (!options.on_validation_message) return;
  VkDebugUtilsMessengerCreateInfoEXT messenger = {};
  messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                              VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                          VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  messenger.pfnUserCallback = on_message;
  messenger.pUserData = &on_message_;
  check(vkCreateDebugUtilsMessengerEXT(instance_, &messenger, nullptr, &messenger_),
        "report messages");
}

// A GPU of any kind rather than a processor that plays one.
void Device::choose_physical_device() {
  uint32_t n = 0;
  check(vkEnumeratePhysicalDevices(instance_, &n, nullptr), "list devices");
  std::vector<VkPhysicalDevice> devices(n);
  check(vkEnumeratePhysicalDevices(instance_, &n, devices.data()), "list devices");
  bool is_cpu = false;
  for (VkPhysicalDevice device : devices) {
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(device, &properties);
    const int32_t family = compute_queue_family(device);
    if (family < 0 || properties.apiVersion < VK_API_VERSION_1_1) continue;
    if (physical_ != VK_NULL_HANDLE &&
        !(is_cpu && properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU)) {
      continue;
    }
    physical_ = device;
    queue_family_ = static_cast<uint32_t>(family);
    is_cpu = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  }
  if (physical_ == VK_NULL_HANDLE) missing("no device has Vulkan 1.1 and computes");
}

void Device::read_properties(const GpuOptions& options) {
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT, nullptr, 0};
  VkPhysicalDeviceSubgroupProperties subgroups = {};
  subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  VkPhysicalDeviceProperties2 all = {
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &subgroups, {}};
  const bool can_import =
      has_extension(physical_, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME) && options.shares_memory;
  if (can_import) subgroups.pNext = &host;
  vkGetPhysicalDeviceProperties2(physical_, &all);
  properties_ = all.properties;
  vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);
  import_alignment_ = can_import ? host.minImportedHostPointerAlignment : 0;

  info_.backend = Backend::kVulkan;
  info_.name = properties_.deviceName;
  const uint32_t v = properties_.driverVersion;
  info_.driver = std::to_string(properties_.vendorID) + ":" + std::to_string(properties_.deviceID) +
                 " " + std::to_string(VK_VERSION_MAJOR(v)) + "." +
                 std::to_string(VK_VERSION_MINOR(v)) + "." + std::to_string(VK_VERSION_PATCH(v));
  info_.is_software = properties_.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  info_.can_share = can_import;
  constexpr VkSubgroupFeatureFlags kNeeded =
      VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
  const bool has_subgroups = (subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                             (subgroups.supportedOperations & kNeeded) == kNeeded;
  if (has_subgroups && options.uses_subgroups) {
    info_.subgroup_size = static_cast<int>(subgroups.subgroupSize);
  }
  const uint32_t limit =
      std::min({limits().maxComputeWorkGroupInvocations, limits().maxComputeWorkGroupSize[0],
                static_cast<uint32_t>(options.max_workgroup)});
  info_.workgroup_size = 1;
  while (static_cast<uint32_t>(info_.workgroup_size) * 2 <= limit) info_.workgroup_size *= 2;
  info_.can_pack = info_.subgroup_size >= 4 && info_.workgroup_size >= 32 &&
                   (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_BALLOT_BIT) != 0;
}

void Device::make_device() {
  const float priority = 1;
  VkDeviceQueueCreateInfo queue = {};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = queue_family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  const char* extension = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
  VkDeviceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = import_alignment_ != 0 ? 1 : 0;
  info.ppEnabledExtensionNames = &extension;
  check(vkCreateDevice(physical_, &info, nullptr, &device_), "open the device");
  vkGetDeviceQueue(device_, queue_family_, 0, &queue_);

  const VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr,
                                        VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                        queue_family_};
  check(vkCreateCommandPool(device_, &pool, nullptr, &pool_), "make a command pool");
  const VkCommandBufferAllocateInfo commands = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                nullptr, pool_, VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  check(vkAllocateCommandBuffers(device_, &commands, &commands_), "make a command buffer");
  const VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, nullptr, 0};
  check(vkCreateFence(device_, &fence, nullptr, &fence_), "make a fence");
}

void Device::begin() {
  VkCommandBufferBeginInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check(vkBeginCommandBuffer(commands_, &info), "record commands");
}

void Device::end_and_wait() {
  barrier(commands_, VK_ACCESS_HOST_READ_BIT, VK_PIPELINE_STAGE_HOST_BIT);
  check(vkEndCommandBuffer(commands_), "record commands");
  if (n_calls_++ == faults_.fails_at_call) {
    constexpr VkResult kResults[] = {VK_ERROR_INCOMPATIBLE_DRIVER, VK_ERROR_OUT_OF_DEVICE_MEMORY,
                                     VK_ERROR_DEVICE_LOST, VK_ERROR_UNKNOWN};
    check(kResults[static_cast<int>(faults_.failure)], "run commands");
  }
  VkSubmitInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands_;
  check(vkQueueSubmit(queue_, 1, &info, fence_), "run commands");
  const VkResult result = vkWaitForFences(device_, 1, &fence_, VK_TRUE, kTimeoutNs);
  is_hung_ = result == VK_TIMEOUT;
  check(result, "wait for the device");
  check(vkResetFences(device_, 1, &fence_), "reset a fence");
}

void Device::barrier(VkCommandBuffer commands, VkAccessFlags to,
                     VkPipelineStageFlags to_stage) const {
  if (faults_.omits_barriers) return;
  const VkMemoryBarrier memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr,
                                  VK_ACCESS_SHADER_WRITE_BIT, to};
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, to_stage, 0, 1, &memory, 0,
                       nullptr, 0, nullptr);
}

void Device::barrier_after_fill(VkCommandBuffer commands) const {
  if (faults_.omits_barriers) return;
  const VkMemoryBarrier memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr,
                                  VK_ACCESS_TRANSFER_WRITE_BIT,
                                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                       VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

void Device::destroy() {
  if (is_hung_) return;  // it would wait for ever
  if (device_ != VK_NULL_HANDLE) {
    vkDestroyFence(device_, fence_, nullptr);
    vkDestroyCommandPool(device_, pool_, nullptr);
    vkDestroyDevice(device_, nullptr);
  }
  if (messenger_ != VK_NULL_HANDLE) {
    vkDestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE) vkDestroyInstance(instance_, nullptr);
}

}  // namespace daf::vulkan
