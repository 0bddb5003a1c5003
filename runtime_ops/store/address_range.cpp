#include "runtime_ops/store/address_range.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace daf {

AddressRange::AddressRange(size_t size_bytes) : data_(nullptr), size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  void* start = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<uint8_t*>(start);
#if defined(MADV_NOHUGEPAGE)
  // A huge page would hold memory that was not asked for.
  madvise(start, size_bytes, MADV_NOHUGEPAGE);
#endif
}

AddressRange::~AddressRange() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

void AddressRange::commit(size_t offset, size_t size_bytes) {
  // One call instead of a fault per page. Where the kernel does not know it, the faults do the
  // work.
  madvise(data_ + offset, size_bytes, MADV_POPULATE_WRITE);
}

void AddressRange::release(size_t offset, size_t size_bytes) {
  madvise(data_ + offset, size_bytes, MADV_DONTNEED);
}

size_t AddressRange::os_page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace daf
