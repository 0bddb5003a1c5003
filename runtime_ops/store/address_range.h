// All that the store asks of the operating system: a range of addresses whose memory comes and
// goes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace daf {

class AddressRange {
 public:
  // Takes addresses, no memory. Throws std::bad_alloc.
  explicit AddressRange(size_t size_bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  uint8_t* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

  // Parts that are whole pages of the operating system. Memory that is not there is zero; what was
  // not committed is, page by page, when it is first written.
  void commit(size_t offset, size_t size_bytes);
  void release(size_t offset, size_t size_bytes);

  static size_t os_page_bytes();

 private:
  uint8_t* data_;
  size_t size_bytes_;
};

}  // namespace daf
