// Stand-ins for what ExecuTorch's kernels do call of torch's libraries, and for what its library
// expects of a newer C++ runtime. Its thread pool becomes a loop: the heavy work is in our kernels,
// which have threads of their own.

#include <cstddef>
#include <cstdint>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT bool cpuinfo_initialize() { return true; }
EXPORT uint32_t cpuinfo_get_processors_count() { return 1; }
EXPORT uint32_t cpuinfo_get_uarchs_count() { return 0; }
EXPORT const void* cpuinfo_get_processor(uint32_t) { return nullptr; }
EXPORT const void* cpuinfo_get_uarch(uint32_t) { return nullptr; }
// A struct of flags: none is set.
EXPORT char cpuinfo_isa[256];
char cpuinfo_isa[256] = {};

static char the_pool;
EXPORT void* pthreadpool_create(size_t) { return &the_pool; }
EXPORT void pthreadpool_destroy(void*) {}
EXPORT size_t pthreadpool_get_threads_count(void*) { return 1; }
EXPORT void pthreadpool_parallelize_1d(void*, void (*task)(void*, size_t), void* context,
                                       size_t range, uint32_t) {
  for (size_t i = 0; i < range; ++i) task(context, i);
}

// std::ios_base_library_init(): main.cpp initialises the streams.
EXPORT void _ZSt21ios_base_library_initv() {}

// std::string::_M_replace_cold(p, old_size, text, new_size, n_after): replaces old_size characters
// at p, which are followed by n_after others, by a text that may be a part of the same string.
// There is room for the result.
EXPORT void _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE15_M_replace_coldEPcmPKcmm(
    void*, char* p, size_t old_size, const char* text, size_t new_size, size_t n_after) {
  char small[256];
  char* const copy = new_size <= sizeof small ? small : new char[new_size];
  std::memcpy(copy, text, new_size);
  std::memmove(p + new_size, p + old_size, n_after);
  std::memcpy(p, copy, new_size);
  if (copy != small) delete[] copy;
}
