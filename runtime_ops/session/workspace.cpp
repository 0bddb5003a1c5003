#include "runtime_ops/session/workspace.h"

#include <algorithm>

namespace daf {
namespace {

size_t round_up(size_t size_bytes, size_t alignment) {
  return (size_bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

void* Workspace::allocate(size_t size_bytes, size_t alignment) {
  if (alignment > kMaxAlignment || size_bytes > SIZE_MAX / 2) return nullptr;
  size_t begin = round_up(used_in_last_, alignment);
  if (chunks_.empty() || begin + size_bytes > chunks_.back().size_bytes) {
    if (!add_chunk(size_bytes)) return nullptr;
    begin = 0;
  }
  used_in_last_ = begin + size_bytes;
  return chunks_.back().memory.get() + begin;
}

void Workspace::reset() {
  if (chunks_.size() > 1) {
    next_chunk_bytes_ = used_before_ + used_in_last_;
    release();
  }
  used_in_last_ = used_before_ = 0;
  if (timer_ != nullptr && !before_first_) timer_->instruction_done();
  before_first_ = false;
}

void Workspace::count_instructions(PhaseTimer& timer) {
  timer_ = &timer;
  before_first_ = true;
  timer.start();
}

bool Workspace::add_chunk(size_t size_bytes) {
  if (used_before_ + used_in_last_ == 0) release();  // nothing is in use, and it is too small
  size_bytes = round_up(std::max({size_bytes, next_chunk_bytes_, min_chunk_bytes_}), kMaxAlignment);
  void* memory = nullptr;
  if (::posix_memalign(&memory, kMaxAlignment, size_bytes) != 0) return false;
  used_before_ += round_up(used_in_last_, kMaxAlignment);
  used_in_last_ = next_chunk_bytes_ = 0;
  chunks_.push_back({std::unique_ptr<uint8_t, Free>(static_cast<uint8_t*>(memory)), size_bytes});
  held_bytes_ += size_bytes;
  if (timer_ != nullptr) peak_bytes_ = std::max(peak_bytes_, held_bytes_);
  return true;
}

void Workspace::release() {
  chunks_.clear();
  held_bytes_ = used_in_last_ = used_before_ = 0;
}

}  // namespace daf
