#include "runtime_ops/gpu/opencl/device.h"

#include <algorithm>
#include <cstring>

namespace daf::opencl {
namespace {

constexpr char kSource[] =
#include "kernels.cl.inc"
    ;

template <class T>
T property(const Api& api, cl_device_id device, cl_device_info name) {
  T value = {};
  check(api.clGetDeviceInfo(device, name, sizeof(value), &value, nullptr), "look at the device");
  return value;
}

std::string text(const Api& api, cl_device_id device, cl_device_info name) {
  char value[256] = {};
  api.clGetDeviceInfo(device, name, sizeof(value) - 1, value, nullptr);
  return value;
}

}  // namespace

void check(cl_int result, const char* action) {
  if (result == CL_SUCCESS) return;
  const std::string what =
      std::string("OpenCL cannot ") + action + " (error " + std::to_string(result) + ")";
  switch (result) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
      throw GpuError(GpuError::Kind::kOutOfMemory, what + ": out of memory");
    case CL_DEVICE_NOT_AVAILABLE:
      throw GpuError(GpuError::Kind::kLost, what + ": the device is lost");
    default:
      throw GpuError(GpuError::Kind::kFailed, what);
  }
}

Device::Device(const GpuOptions& options) : api_(api()), faults_(options.faults) {
  try {
    choose_device();
    read_properties(options);
    cl_int result = CL_SUCCESS;
    context_ = api_.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &result);
    check(result, "open the device");
    queue_ = api_.clCreateCommandQueue(context_, device_, 0, &result);
    check(result, "make a queue");
  } catch (...) {
    destroy();
    throw;
  }
}

Device::~Device() { destroy(); }

// A GPU rather than a processor that plays one.
void Device::choose_device() {
  cl_uint n_platforms = 0;
  api_.clGetPlatformIDs(0, nullptr, &n_platforms);  // an error means none
  std::vector<cl_platform_id> platforms(n_platforms);
  if (n_platforms > 0)
    check(api_.clGetPlatformIDs(n_platforms, platforms.data(), nullptr), "start");
  constexpr cl_device_type kTypes[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ALL};
  for (const cl_device_type type : kTypes) {
    for (cl_platform_id platform : platforms) {
      cl_uint n_devices = 0;
      cl_device_id device = nullptr;
      if (api_.clGetDeviceIDs(platform, type, 1, &device, &n_devices) == CL_SUCCESS &&
          n_devices > 0) {
        device_ = device;
        return;
      }
    }
  }
  throw GpuError(GpuError::Kind::kMissing, "cannot use OpenCL: no driver is installed");
}

void Device::read_properties(const GpuOptions& options) {
  info_.backend = Backend::kOpenCl;
  info_.name = text(api_, device_, CL_DEVICE_NAME);
  info_.driver =
      text(api_, device_, CL_DEVICE_VENDOR) + " " + text(api_, device_, CL_DRIVER_VERSION);
  const auto type = property<cl_device_type>(api_, device_, CL_DEVICE_TYPE);
  info_.is_software = (type & CL_DEVICE_TYPE_CPU) != 0;
  // What the host has allocated is used in place by processors; some GPUs would copy it whole at
  // every use (Mali), so there it is not tried.
  info_.can_share = info_.is_software && options.shares_memory;
  max_buffer_bytes_ = property<cl_ulong>(api_, device_, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  const auto largest = property<size_t>(api_, device_, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  const size_t limit = std::min(largest, static_cast<size_t>(options.max_workgroup));
  info_.workgroup_size = 1;
  while (static_cast<size_t>(info_.workgroup_size) * 2 <= limit) info_.workgroup_size *= 2;
}

cl_kernel Device::kernel(const char* name, const std::string& defines) {
  cl_kernel& kernel = kernels_[name + defines];
  if (kernel != nullptr) return kernel;
  cl_int result = CL_SUCCESS;
  cl_program& program = programs_[defines];
  if (program == nullptr) {
    const char* source = kSource;
    program = api_.clCreateProgramWithSource(context_, 1, &source, nullptr, &result);
    check(result, "load the kernels");
    std::string options =
        "-cl-std=CL1.2 -DWORKGROUP=" + std::to_string(info_.workgroup_size) + "u" + defines;
    if (faults_.omits_barriers) options += " -DNO_BARRIERS";
    result = api_.clBuildProgram(program, 1, &device_, options.c_str(), nullptr, nullptr);
    if (result != CL_SUCCESS) {
      char log[1024] = {};
      api_.clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log,
                                 nullptr);
      throw GpuError(GpuError::Kind::kFailed, std::string("OpenCL cannot compile: ") + log);
    }
  }
  kernel = api_.clCreateKernel(program, name, &result);
  check(result, "make a kernel");
  return kernel;
}

void Device::finish() {
  if (n_calls_++ == faults_.fails_at_call) {
    constexpr cl_int kResults[] = {CL_DEVICE_NOT_FOUND, CL_OUT_OF_RESOURCES,
                                   CL_DEVICE_NOT_AVAILABLE, CL_INVALID_COMMAND_QUEUE};
    check(kResults[static_cast<int>(faults_.failure)], "run a kernel");
  }
  check(api_.clFinish(queue_), "wait for the device");
}

void Device::destroy() {
  for (const auto& entry : kernels_) {
    if (entry.second != nullptr) api_.clReleaseKernel(entry.second);
  }
  for (const auto& entry : programs_) {
    if (entry.second != nullptr) api_.clReleaseProgram(entry.second);
  }
  if (queue_ != nullptr) api_.clReleaseCommandQueue(queue_);
  if (context_ != nullptr) api_.clReleaseContext(context_);
}

Buffer::Buffer(const Device& device, size_t size_bytes)
    : api_(api()), device_(device), size_bytes_(size_bytes) {
  cl_int result = CL_SUCCESS;
  memory_ = api_.clCreateBuffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                size_bytes, nullptr, &result);
  check(result, "allocate memory");
}

Buffer::Buffer(const Device& device, void* data, size_t size_bytes)
    : api_(api()), device_(device), size_bytes_(size_bytes), data_(static_cast<uint8_t*>(data)) {
  cl_int result = CL_SUCCESS;
  memory_ = api_.clCreateBuffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                size_bytes, data, &result);
  check(result, "share memory");
}

Buffer::~Buffer() { api_.clReleaseMemObject(memory_); }

void* Buffer::map(cl_map_flags flags, size_t offset, size_t size_bytes) const {
  cl_int result = CL_SUCCESS;
  void* data = api_.clEnqueueMapBuffer(device_.queue(), memory_, CL_TRUE, flags, offset, size_bytes,
                                       0, nullptr, nullptr, &result);
  check(result, "map memory");
  return data;
}

void Buffer::unmap(void* data) const {
  check(api_.clEnqueueUnmapMemObject(device_.queue(), memory_, data, 0, nullptr, nullptr),
        "unmap memory");
}

}  // namespace daf::opencl
