#include "runtime_ops/session/program_loader.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/log_capture.h"
#include "runtime_ops/session/sha256.h"

namespace daf {
namespace {

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Program;
using executorch::runtime::Result;

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw DafError(Exit::kProgram,
                 "cannot load " + path + ": " + reason + "; export it again with daf-export");
}

std::string sha256_of(const InputFile& file) {
  Sha256 hash;
  std::vector<uint8_t> block(1 << 18);
  for (uint64_t offset = 0; offset < file.size_bytes(); offset += block.size()) {
    const size_t n =
        static_cast<size_t>(std::min<uint64_t>(block.size(), file.size_bytes() - offset));
    file.read(offset, block.data(), n);
    hash.update(block.data(), n);
  }
  return hash.finish();
}

void check_against_manifest(const std::string& path, const InputFile& file,
                            const Manifest& manifest) {
  const auto expected_bytes = static_cast<uint64_t>(manifest.program_size_bytes);
  if (file.size_bytes() < expected_bytes) {
    fail(path, "it is truncated (" + std::to_string(file.size_bytes()) + " of " +
                   std::to_string(expected_bytes) + " bytes)");
  }
  const std::string found = sha256_of(file);
  if (file.size_bytes() != expected_bytes || found != manifest.program_sha256) {
    fail(path, "it is damaged, or not the program of its manifest (SHA-256 " + found.substr(0, 12) +
                   "..., expected " + manifest.program_sha256.substr(0, 12) + "...)");
  }
}

Program parse_program(const std::string& path, MappedProgram& file) {
  const Program::HeaderStatus header =
      file.file().size_bytes() < Program::kMinHeadBytes
          ? Program::HeaderStatus::ShortData
          : Program::check_header(file.data(), Program::kMinHeadBytes);
  if (header == Program::HeaderStatus::IncompatibleVersion) {
    fail(path, "it was made for another version of ExecuTorch");
  }
  if (header != Program::HeaderStatus::CompatibleVersion) {
    fail(path, "it is not an ExecuTorch program");
  }
  const LogCapture log;
  Result<Program> program = Program::load(&file, Program::Verification::InternalConsistency);
  if (!program.ok()) {
    const std::string reason = log.first_error();
    fail(path, "ExecuTorch refuses it (" +
                   (reason.empty() ? executorch::runtime::to_string(program.error()) : reason) +
                   ")");
  }
  return std::move(program.get());
}

}  // namespace

MappedProgram::MappedProgram(const std::string& path) : file_(path) {
  if (file_.size_bytes() == 0) throw FormatError("it is empty");
  void* data = ::mmap(nullptr, file_.size_bytes(), PROT_READ, MAP_PRIVATE, file_.fd(), 0);
  if (data == MAP_FAILED) throw FormatError(errno_text(errno));
  data_ = static_cast<const uint8_t*>(data);
}

MappedProgram::~MappedProgram() { ::munmap(const_cast<uint8_t*>(data_), file_.size_bytes()); }

bool MappedProgram::contains(size_t offset, size_t size_bytes) const {
  return size_bytes <= file_.size_bytes() && offset <= file_.size_bytes() - size_bytes;
}

Result<FreeableBuffer> MappedProgram::load(size_t offset, size_t size_bytes,
                                           const SegmentInfo& segment) const {
  if (!contains(offset, size_bytes)) return Error::InvalidProgram;
  if (segment.segment_type == SegmentInfo::Type::Constant) constant_bytes_ += size_bytes;
  return FreeableBuffer(data_ + offset, size_bytes, /*free_fn=*/nullptr);
}

Error MappedProgram::load_into(size_t offset, size_t size_bytes, const SegmentInfo&,
                               void* buffer) const {
  if (!contains(offset, size_bytes)) return Error::InvalidProgram;
  try {
    file_.read(offset, buffer, size_bytes);
    return Error::Ok;
  } catch (const FormatError&) {
    return Error::AccessFailed;
  }
}

LoadedProgram load_program(const std::string& path, const Manifest& manifest) {
  LoadedProgram loaded;
  try {
    loaded.file = std::make_unique<MappedProgram>(path);
    check_against_manifest(path, loaded.file->file(), manifest);
  } catch (const FormatError& error) {
    fail(path, error.what());
  }
  loaded.program.emplace(parse_program(path, *loaded.file));
  return loaded;
}

}  // namespace daf
