// Smallest and largest values, and decoding of bit-planes, on a processor of any kind: the CPU's
// kernels, Vulkan, OpenCL. All give the same bits (OrderedRange and BitPlanes of kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime_ops/kernels/kernels.h"

namespace daf {

enum class Backend { kCpu, kVulkan, kOpenCl };
const char* name_of(Backend backend);

// What a reducer does. Each has its own variants.
enum class ReduceOp {
  kRange,   // of a whole tensor
  kRanges,  // of each group
  kDecode,  // of bit-planes
};
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::kRange, ReduceOp::kRanges, ReduceOp::kDecode};
const char* name_of(ReduceOp op);

// How a device does it. All variants of an operation give the same bits.
struct Variant {
  Backend backend = Backend::kCpu;
  bool is_atomic = false;  // workgroups meet in an atomic; otherwise in further passes (a tree)
  bool is_vec4 = false;    // four values per load
  bool uses_subgroups = false;
  bool packs = false;  // of kRanges: the device makes the planes too

  bool operator==(const Variant& other) const;
  std::string name() const;  // "cpu", "vulkan tree vec4 subgroup"
};

// The driver is missing, fails, or has lost the device. What was asked for is not done; a reducer
// that has thrown this may be destroyed, and nothing else.
class GpuError : public std::runtime_error {
 public:
  enum class Kind { kMissing, kOutOfMemory, kLost, kFailed };
  GpuError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

struct ReduceDevice {
  Backend backend = Backend::kCpu;
  std::string name;          // as its driver says
  std::string driver;        // name and version
  bool is_software = false;  // the CPU, in the end
  int subgroup_size = 0;     // 0: does without
  int workgroup_size = 0;
  bool can_pack = false;
  bool can_share = false;  // memory of the host is used where it lies

  // Under which timings are kept.
  std::string key() const { return std::string(name_of(backend)) + " " + name + " " + driver; }
};

// Bit-planes of a tensor's groups, in pieces: piece k has `groups_per_piece` groups, and the last
// one those that remain.
struct PlanePieces {
  int bits = 0;      // planes that were made
  int n_planes = 0;  // planes to read, the most significant first
  int64_t groups_per_piece = 0;
  // Where headers and planes lie: [k * (1 + n_planes)] is the first header of piece k, its planes
  // follow.
  std::vector<const uint32_t*> parts;
  // The values wanted: `count` from `first` on, 0 being the first value of the first group.
  int64_t first = 0, count = 0;
  Coding coding;

  int64_t n_groups() const { return (first + count + kPlaneGroup - 1) / kPlaneGroup; }
  bool is_dithered() const { return coding.form == PlaneForm::kDithered && n_planes > 0; }
  // What group g's noise comes from is hash(noise_base() + g * kHashStep), as in plane_noise.h.
  static constexpr uint32_t kHashStep = 0x9e3779b9;
  uint32_t noise_base() const { return coding.key + coding.first_group * kHashStep; }
};

class Reducer {
 public:
  virtual ~Reducer() = default;

  virtual const ReduceDevice& device() const = 0;
  virtual std::vector<Variant> variants(ReduceOp op) const = 0;

  // Of n values. Of none: zeros.
  OrderedRange find_range(const Variant& variant, int64_t n, const float* x);
  // Of each group of group_size values; the last may be shorter.
  void find_ranges(const Variant& variant, int64_t n, int64_t group_size, const float* x,
                   OrderedRange* ranges);
  // y[0, count). What a marked group has there is not said; nor what a group has whose numbers are
  // so small that some devices take them for zero (is_too_small).
  void decode(const Variant& variant, const PlanePieces& from, float* y);

  // The planes of n values, at most kMaxPacked, to where `to` says; headers are not touched. What a
  // group has that is too small is not said. For variants that say so.
  static constexpr int64_t kMaxPacked = 1 << 24;
  virtual void pack(int64_t n, const float* x, const GroupCode* codes, const PlanePieces& to);

  // Takes whole pages of the host's memory as its own, until unshare(): what is asked for is then
  // read and written there. They must stay mapped and not be exchanged by the operating system
  // (MADV_DONTNEED). False when this device cannot; then everything is copied.
  virtual bool share(void* data, size_t size_bytes) = 0;
  virtual void unshare(void* data) = 0;

  // To and from the device, since the reducer was made.
  virtual uint64_t copied_bytes() const = 0;

 protected:
  // What one call of a device is given at most. Offsets then fit in 32 bits, buffers in the
  // smallest limit that Vulkan allows (128 MB).
  static constexpr int64_t kMaxValues = 1 << 24;
  static constexpr int64_t kMaxGroups = kMaxValues / 2;

  virtual OrderedRange do_find_range(const Variant& variant, int64_t n, const float* x) = 0;
  virtual void do_find_ranges(const Variant& variant, int64_t n, int64_t group_size, const float* x,
                              OrderedRange* ranges) = 0;
  // `from` has kMaxValues at most.
  virtual void do_decode(const Variant& variant, const PlanePieces& from, float* y) = 0;
};

// Drivers may flush numbers below 2^-126 to zero. A group with this header may need them.
bool is_too_small(uint32_t header);

// Compares every variant with the CPU's kernels on a few hundred awkward values, and throws
// GpuError when a bit differs: a driver that computes something else is as good as none.
void check_reducer(Reducer& reducer);

std::unique_ptr<Reducer> make_cpu_reducer();

}  // namespace daf
