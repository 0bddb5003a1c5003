#include "runtime_ops/gpu/reducer.h"

#include <algorithm>

namespace daf {

const char* name_of(Backend backend) {
  constexpr const char* kNames[] = {"cpu", "vulkan", "opencl"};
  return kNames[static_cast<int>(backend)];
}

const char* name_of(ReduceOp op) {
  constexpr const char* kNames[] = {"range", "ranges", "decode"};
  return kNames[static_cast<int>(op)];
}

bool Variant::operator==(const Variant& other) const {
  return backend == other.backend && is_atomic == other.is_atomic && is_vec4 == other.is_vec4 &&
         uses_subgroups == other.uses_subgroups && packs == other.packs;
}

std::string Variant::name() const {
  std::string name = name_of(backend);
  if (backend == Backend::kCpu) return name;
  name += is_atomic ? " atomic" : " tree";
  if (is_vec4) name += " vec4";
  if (uses_subgroups) name += " subgroup";
  if (packs) name += " pack";
  return name;
}

OrderedRange Reducer::find_range(const Variant& variant, int64_t n, const float* x) {
  OrderedRange range = {0, 0};
  for (int64_t first = 0; first < n; first += kMaxValues) {
    const OrderedRange part = do_find_range(variant, std::min(kMaxValues, n - first), x + first);
    range.not_minimum = std::max(range.not_minimum, part.not_minimum);
    range.maximum = std::max(range.maximum, part.maximum);
  }
  return range;
}

void Reducer::find_ranges(const Variant& variant, int64_t n, int64_t group_size, const float* x,
                          OrderedRange* ranges) {
  if (group_size > kMaxValues) {
    for (int64_t first = 0; first < n; first += group_size) {
      *ranges++ = find_range(variant, std::min(group_size, n - first), x + first);
    }
    return;
  }
  const int64_t step = std::min(kMaxGroups, kMaxValues / group_size) * group_size;
  for (int64_t first = 0; first < n; first += step) {
    do_find_ranges(variant, std::min(step, n - first), group_size, x + first,
                   ranges + first / group_size);
  }
}

void Reducer::decode(const Variant& variant, const PlanePieces& from, float* y) {
  if (from.first + from.count <= kMaxValues) {
    if (from.count > 0) do_decode(variant, from, y);
    return;
  }
  const int64_t piece_values = from.groups_per_piece * kPlaneGroup;
  const int64_t step_pieces = std::max<int64_t>(1, kMaxValues / piece_values);
  const int64_t end = from.first + from.count;
  for (int64_t piece = 0; piece * piece_values < end; piece += step_pieces) {
    const int64_t start = piece * piece_values;
    const int64_t first = std::max(from.first, start);
    const int64_t last = std::min(end, start + step_pieces * piece_values);
    if (first >= last) continue;
    PlanePieces part = from;
    part.first = first - start;
    part.count = last - first;
    part.coding.first_group += static_cast<uint32_t>(piece * from.groups_per_piece);
    const auto begin = from.parts.begin() + piece * (1 + from.n_planes);
    const int64_t n_pieces = (last - start + piece_values - 1) / piece_values;
    part.parts.assign(begin, begin + n_pieces * (1 + from.n_planes));
    do_decode(variant, part, y + (first - from.first));
  }
}

void Reducer::pack(int64_t, const float*, const GroupCode*, const PlanePieces&) {
  throw std::logic_error(device().name + " does not pack");
}

// A product of scale and code, with noise or without, is exact. Their sum with the minimum is zero
// or a multiple of 2^-125 when both are this large.
bool is_too_small(uint32_t header) {
  constexpr uint32_t kSmallestScale = (127 - 100) << 7;  // 2^-100, as bfloat16
  const uint32_t scale = header >> 16, minimum = header & 0x7fff;
  const bool is_subnormal = minimum != 0 && minimum < 0x0080;
  return is_subnormal || (scale != 0 && scale < kSmallestScale);
}

}  // namespace daf
