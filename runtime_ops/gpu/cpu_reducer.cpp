// The kernels of this processor as a reducer.
#include <algorithm>

#include "runtime_ops/gpu/reducer.h"

namespace daf {
namespace {

class CpuReducer final : public Reducer {
 public:
  CpuReducer() {
    device_.name = current_isa();
    device_.driver = "daf";
    device_.is_software = true;
    device_.can_share = true;
  }

  const ReduceDevice& device() const override { return device_; }
  std::vector<Variant> variants(ReduceOp) const override { return {Variant{}}; }
  bool share(void*, size_t) override { return true; }
  void unshare(void*) override {}
  uint64_t copied_bytes() const override { return 0; }

 private:
  OrderedRange do_find_range(const Variant&, int64_t n, const float* x) override {
    constexpr int64_t kPart = 1 << 14;
    OrderedRange parts[kMaxValues / kPart];
    ordered_ranges(n, kPart, x, parts);
    OrderedRange range = {0, 0};
    for (int64_t i = 0; i * kPart < n; ++i) {
      range.not_minimum = std::max(range.not_minimum, parts[i].not_minimum);
      range.maximum = std::max(range.maximum, parts[i].maximum);
    }
    return range;
  }

  void do_find_ranges(const Variant&, int64_t n, int64_t group_size, const float* x,
                      OrderedRange* ranges) override {
    ordered_ranges(n, group_size, x, ranges);
  }

  void do_decode(const Variant&, const PlanePieces& from, float* y) override {
    const int64_t piece_values = from.groups_per_piece * kPlaneGroup;
    const int64_t end = from.first + from.count;
    for (int64_t piece = from.first / piece_values; piece * piece_values < end; ++piece) {
      const uint32_t* const* parts = from.parts.data() + piece * (1 + from.n_planes);
      BitPlanes planes = {from.bits, const_cast<uint32_t*>(parts[0]), {}, from.coding};
      planes.coding.first_group += static_cast<uint32_t>(piece * from.groups_per_piece);
      for (int p = 0; p < from.n_planes; ++p) planes.plane[p] = const_cast<uint32_t*>(parts[1 + p]);
      const int64_t start = piece * piece_values;
      const int64_t first = std::max(from.first, start);
      const int64_t last = std::min(end, start + piece_values);
      bitplane_decode(planes, from.n_planes, first - start, last - first, false,
                      y + (first - from.first));
    }
  }

  ReduceDevice device_;
};

}  // namespace

std::unique_ptr<Reducer> make_cpu_reducer() { return std::make_unique<CpuReducer>(); }

}  // namespace daf
