// An OpenCL device as the reducer needs it: one queue in order, buffers that the host sees. All
// errors are GpuErrors.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "runtime_ops/gpu/opencl/api.h"
#include "runtime_ops/gpu/options.h"

namespace daf::opencl {

void check(cl_int result, const char* action);

class Device {
 public:
  explicit Device(const GpuOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const ReduceDevice& info() const { return info_; }
  cl_context context() const { return context_; }
  cl_command_queue queue() const { return queue_; }
  cl_ulong max_buffer_bytes() const { return max_buffer_bytes_; }

  // With a set of defines; compiled when it is first asked for.
  cl_kernel kernel(const char* name, const std::string& defines);

  // Enqueues a kernel whose arguments are given in their order.
  template <class... Arguments>
  void enqueue(cl_kernel kernel, uint32_t n_workgroups, const Arguments&... arguments) {
    cl_uint index = 0;
    (check(api_.clSetKernelArg(kernel, index++, sizeof(arguments), &arguments), "set an argument"),
     ...);
    const size_t local = static_cast<size_t>(info_.workgroup_size), global = n_workgroups * local;
    check(api_.clEnqueueNDRangeKernel(queue_, kernel, 1, nullptr, &global, &local, 0, nullptr,
                                      nullptr),
          "run a kernel");
  }
  // Waits until everything is done.
  void finish();

 private:
  void choose_device();
  void read_properties(const GpuOptions& options);
  void destroy();

  const Api& api_;
  GpuFaults faults_;
  int n_calls_ = 0;
  ReduceDevice info_;
  cl_ulong max_buffer_bytes_ = 0;
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::map<std::string, cl_program> programs_;
  std::map<std::string, cl_kernel> kernels_;
};

// Memory that the host and the device see. The host has it while it is mapped, and only then.
class Buffer {
 public:
  // CL_MEM_ALLOC_HOST_PTR: on devices that share the memory of the host, mapping copies nothing.
  Buffer(const Device& device, size_t size_bytes);
  // The host's own memory, used where it lies.
  Buffer(const Device& device, void* data, size_t size_bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const cl_mem& handle() const { return memory_; }
  size_t size_bytes() const { return size_bytes_; }
  uint8_t* data() const { return data_; }  // of the host's own memory

  void* map(cl_map_flags flags, size_t offset, size_t size_bytes) const;
  void unmap(void* data) const;

 private:
  const Api& api_;
  const Device& device_;
  size_t size_bytes_;
  uint8_t* data_ = nullptr;
  cl_mem memory_ = nullptr;
};

}  // namespace daf::opencl
