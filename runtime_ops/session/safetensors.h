// Reading and writing safetensors files.
//
// Layout: 8 bytes little-endian header length, that many bytes of JSON (name -> dtype, shape,
// data_offsets; `__metadata__` -> strings), then the tensors without gaps or overlaps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime_ops/session/file.h"
#include "runtime_ops/session/tensor_spec.h"

namespace daf {

using Metadata = std::map<std::string, std::string>;

struct SafetensorsEntry {
  TensorSpec spec;
  uint64_t offset = 0;  // of the first byte, in the file
};

// Checks the whole header when it is opened. All errors are FormatErrors. Tensors are read with
// pread(2), not mapped: mapped pages of a data set would count as memory of the training run.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // by offset
  const SafetensorsEntry* find(const std::string& name) const;
  const Metadata& metadata() const { return metadata_; }

  // Bytes [begin, begin + size_bytes) of the tensor.
  void read(const SafetensorsEntry& entry, uint64_t begin, void* buffer, size_t size_bytes) const;
  void read(const SafetensorsEntry& entry, void* buffer) const;

 private:
  InputFile file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t> index_;
  Metadata metadata_;
};

// Atomic and durable (see AtomicFile). Errors are DafErrors with Exit::kOutput.
void write_safetensors(const std::string& path, std::vector<ConstTensorView> tensors,
                       const Metadata& metadata);

}  // namespace daf
