#include "runtime_ops/gpu/opencl/api.h"

#include <dlfcn.h>

#include <string>

#include "runtime_ops/gpu/reducer.h"

namespace daf::opencl {
namespace {

// An app finds its vendor's library by name if its manifest asks for it (uses-native-library);
// executables of the shell by their paths.
constexpr const char* kLibraries[] = {
    "libOpenCL.so.1",
    "libOpenCL.so",
#if defined(__ANDROID__)
    "libGLES_mali.so",
    "libPVROCL.so",
#if defined(__LP64__)
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/system/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "/vendor/lib64/libPVROCL.so",
#else
    "/vendor/lib/libOpenCL.so", "/system/vendor/lib/libOpenCL.so",
    "/system/lib/libOpenCL.so", "/vendor/lib/egl/libGLES_mali.so",
    "/vendor/lib/libPVROCL.so",
#endif
#endif
};

// Null when the library lacks a function.
bool load(void* library, Api& api) {
  bool is_complete = true;
#define F(name)                                                           \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name)); \
  is_complete &= api.name != nullptr;
  DAF_OPENCL_FUNCTIONS(F)
#undef F
  return is_complete;
}

struct Found {
  Api api;
  bool is_there = false;
};

Found find() {
  Found found;
  for (const char* name : kLibraries) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    found.is_there = load(library, found.api);
    if (found.is_there) break;
    dlclose(library);
  }
  return found;
}

}  // namespace

const Api& api() {
  static const Found found = find();
  if (!found.is_there) {
    throw GpuError(GpuError::Kind::kMissing,
                   "cannot use OpenCL: its library (libOpenCL.so.1) is not installed");
  }
  return found.api;
}

}  // namespace daf::opencl
