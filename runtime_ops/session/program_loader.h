// Opens a program file: mapped, compared with its manifest, verified by ExecuTorch.
#pragma once

#include <executorch/runtime/core/data_loader.h>
#include <executorch/runtime/executor/program.h>

#include <memory>
#include <optional>
#include <string>

#include "runtime_ops/session/file.h"
#include "runtime_ops/session/manifest.h"

namespace daf {

// Constants stay in the mapped file, and only pages that are used become resident. Initial values
// of the state are read, not mapped: those pages would be resident twice.
class MappedProgram final : public executorch::runtime::DataLoader {
 public:
  // Throws FormatError.
  explicit MappedProgram(const std::string& path);
  ~MappedProgram() override;

  executorch::runtime::Result<executorch::runtime::FreeableBuffer> load(
      size_t offset, size_t size_bytes, const SegmentInfo& segment) const override;
  executorch::runtime::Error load_into(size_t offset, size_t size_bytes, const SegmentInfo& segment,
                                       void* buffer) const override;
  executorch::runtime::Result<size_t> size() const override { return file_.size_bytes(); }

  const InputFile& file() const { return file_; }
  const uint8_t* data() const { return data_; }
  size_t constant_bytes() const { return constant_bytes_; }

 private:
  bool contains(size_t offset, size_t size_bytes) const;

  InputFile file_;
  const uint8_t* data_ = nullptr;
  mutable size_t constant_bytes_ = 0;
};

struct LoadedProgram {
  std::unique_ptr<MappedProgram> file;  // must outlive `program`
  std::optional<executorch::runtime::Program> program;
};

// Throws DafError with Exit::kProgram when the file is missing, truncated, damaged, not what the
// manifest describes, or not a program.
LoadedProgram load_program(const std::string& path, const Manifest& manifest);

}  // namespace daf
