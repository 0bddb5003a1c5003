// OpenCL's functions, from whatever library this system has.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

namespace daf::opencl {

// Those that the reducer calls.
// clang-format off
#define DAF_OPENCL_FUNCTIONS(F)                                                                  \
  F(clGetPlatformIDs) F(clGetDeviceIDs) F(clGetDeviceInfo)                                       \
  F(clCreateContext) F(clReleaseContext) F(clCreateCommandQueue) F(clReleaseCommandQueue)        \
  F(clCreateBuffer) F(clReleaseMemObject) F(clEnqueueMapBuffer) F(clEnqueueUnmapMemObject)       \
  F(clEnqueueFillBuffer) F(clCreateProgramWithSource) F(clBuildProgram) F(clGetProgramBuildInfo) \
  F(clReleaseProgram) F(clCreateKernel) F(clReleaseKernel) F(clSetKernelArg)                     \
  F(clEnqueueNDRangeKernel) F(clFinish)
// clang-format on

struct Api {
#define F(name) decltype(&::name) name = nullptr;
  DAF_OPENCL_FUNCTIONS(F)
#undef F
};

// Looks once, under the names that the libraries have on Linux and on Android. Throws GpuError.
const Api& api();

}  // namespace daf::opencl
