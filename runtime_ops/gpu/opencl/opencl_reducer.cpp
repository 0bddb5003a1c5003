#include <algorithm>
#include <cstring>

#include "runtime_ops/gpu/opencl/device.h"
#include "runtime_ops/gpu/tiles.h"

namespace daf {
namespace opencl {
namespace {

constexpr size_t kSmallestBuffer = 1 << 16;

// Where values are.
struct Place {
  cl_mem memory = nullptr;
  uint32_t first = 0;  // of the values, in words
};

class OpenClReducer final : public Reducer {
 public:
  explicit OpenClReducer(const GpuOptions& options) : device_(options) {}

  const ReduceDevice& device() const override { return device_.info(); }

  std::vector<Variant> variants(ReduceOp op) const override {
    return gpu_variants(device_.info(), op);
  }

  bool share(void* data, size_t size_bytes) override {
    if (!device().can_share || size_bytes == 0 || size_bytes > device_.max_buffer_bytes()) {
      return false;
    }
    try {
      Shared shared = {std::make_unique<Buffer>(device_, data, size_bytes), nullptr};
      shared.mapped = shared.buffer->map(CL_MAP_READ | CL_MAP_WRITE, 0, size_bytes);
      shared_.push_back(std::move(shared));
      return true;
    } catch (const GpuError&) {
      return false;
    }
  }

  void unshare(void* data) override {
    const auto found = std::find_if(shared_.begin(), shared_.end(), [&](const Shared& shared) {
      return shared.buffer->data() == data;
    });
    if (found == shared_.end()) return;
    if (found->mapped != nullptr) found->buffer->unmap(found->mapped);
    device_.finish();
    shared_.erase(found);
  }

  uint64_t copied_bytes() const override { return copied_bytes_; }

 private:
  OrderedRange do_find_range(const Variant& variant, int64_t n, const float* x) override {
    const auto workgroup = static_cast<uint32_t>(device().workgroup_size);
    const auto count = static_cast<uint32_t>(n);
    const std::vector<uint32_t> counts =
        variant.is_atomic ? std::vector<uint32_t>{count, 1} : tree_counts(count, workgroup);
    size_t n_ranges = 0;
    for (size_t pass = 1; pass < counts.size(); ++pass) n_ranges += counts[pass];
    const Buffer& results = grow(results_, n_ranges * sizeof(OrderedRange));

    Place from = place_input(x, static_cast<size_t>(n) * sizeof(float));
    const std::string vec4 = variant.is_vec4 && from.first % 4 == 0 ? " -DVEC4" : "";
    take_from_host();
    uint32_t first_range = 0;
    if (variant.is_atomic) {
      const uint32_t zero = 0;
      check(api().clEnqueueFillBuffer(device_.queue(), results.handle(), &zero, sizeof(zero), 0,
                                      sizeof(OrderedRange), 0, nullptr, nullptr),
            "clear memory");
      const uint32_t tile = values_per_workgroup(count, workgroup);
      device_.enqueue(device_.kernel("range", vec4 + " -DATOMIC -DLANES=1"), divide(count, tile),
                      from.memory, from.first, count, tile, results.handle(), first_range);
    } else {
      // Each pass leaves its ranges behind those of the last one.
      for (size_t pass = 0; pass + 1 < counts.size(); ++pass) {
        const uint32_t tile = values_per_workgroup(counts[pass], workgroup);
        device_.enqueue(device_.kernel("range", (pass == 0 ? vec4 : " -DOF_RANGES") + " -DLANES=1"),
                        counts[pass + 1], from.memory, from.first, counts[pass], tile,
                        results.handle(), first_range);
        from = {results.handle(), first_range};
        first_range += counts[pass + 1];
      }
      first_range -= 1;
    }
    device_.finish();
    give_to_host();
    OrderedRange range;
    read(results, first_range * sizeof(range), &range, sizeof(range));
    return range;
  }

  void do_find_ranges(const Variant& variant, int64_t n, int64_t group_size, const float* x,
                      OrderedRange* ranges) override {
    const auto workgroup = static_cast<uint32_t>(device().workgroup_size);
    const auto size = static_cast<uint32_t>(group_size);
    const auto n_groups = static_cast<uint32_t>((n + group_size - 1) / group_size);
    const Place values = place_input(x, static_cast<size_t>(n) * sizeof(float));
    const bool is_vec4 = variant.is_vec4 && values.first % 4 == 0 && group_size % 4 == 0;
    const uint32_t lanes = lanes_of_group(size, workgroup);
    const size_t size_bytes = n_groups * sizeof(OrderedRange);
    const Buffer& results = grow(results_, size_bytes);
    const std::string defines = (is_vec4 ? " -DVEC4" : "") + (" -DLANES=" + std::to_string(lanes));
    take_from_host();
    device_.enqueue(device_.kernel("ranges", defines),
                    std::min(divide(n_groups, workgroup / lanes), kMaxWorkgroups), values.memory,
                    values.first, static_cast<uint32_t>(n), size, n_groups, results.handle());
    device_.finish();
    give_to_host();
    read(results, 0, ranges, size_bytes);
    copied_bytes_ += size_bytes;
  }

  void do_decode(const Variant&, const PlanePieces& from, float* y) override {
    const auto workgroup = static_cast<uint32_t>(device().workgroup_size);
    const auto count = static_cast<uint32_t>(from.count);
    const size_t size_bytes = count * sizeof(float);
    const cl_mem words = place_planes(from);
    const Shared* shared = shared_with(y, size_bytes);
    const Place to = shared != nullptr ? place_shared(*shared, y)
                                       : Place{grow(results_, size_bytes).handle(), 0};
    const cl_mem places = places_->handle();
    take_from_host();
    device_.enqueue(device_.kernel("decode", " -DLANES=1"),
                    std::min(divide(count, workgroup), kMaxWorkgroups), words, places, to.memory,
                    static_cast<uint32_t>(from.first), count, to.first,
                    static_cast<uint32_t>(from.n_planes),
                    static_cast<uint32_t>(std::max(from.bits, 1) - from.n_planes),
                    static_cast<uint32_t>(from.groups_per_piece),
                    static_cast<uint32_t>(from.is_dithered()), from.noise_base());
    device_.finish();
    give_to_host();
    if (shared == nullptr) {
      read(*results_, 0, y, size_bytes);
      copied_bytes_ += size_bytes;
    }
  }

  // ---- where data is -----------------------------------------------------------------------

  struct Shared {
    std::unique_ptr<Buffer> buffer;
    void* mapped;  // null while the device has it
  };

  // Shared memory is mapped, and so the host's, except while kernels run.
  void take_from_host() {
    for (Shared& shared : shared_) {
      shared.buffer->unmap(shared.mapped);
      shared.mapped = nullptr;
    }
  }
  void give_to_host() {
    for (Shared& shared : shared_) {
      if (shared.mapped != nullptr) continue;
      shared.mapped =
          shared.buffer->map(CL_MAP_READ | CL_MAP_WRITE, 0, shared.buffer->size_bytes());
    }
  }

  const Shared* shared_with(const void* data, size_t size_bytes) const {
    const auto* begin = static_cast<const uint8_t*>(data);
    for (const Shared& shared : shared_) {
      const uint8_t* start = shared.buffer->data();
      if (begin >= start && begin + size_bytes <= start + shared.buffer->size_bytes()) {
        return &shared;
      }
    }
    return nullptr;
  }

  static Place place_shared(const Shared& shared, const void* data) {
    const auto offset = static_cast<const uint8_t*>(data) - shared.buffer->data();
    return {shared.buffer->handle(), static_cast<uint32_t>(offset / 4)};
  }

  Place place_input(const void* data, size_t size_bytes) {
    const Shared* shared = shared_with(data, size_bytes);
    if (shared != nullptr) return place_shared(*shared, data);
    const Buffer& buffer = grow(input_, size_bytes);
    void* mapped = buffer.map(CL_MAP_WRITE_INVALIDATE_REGION, 0, size_bytes);
    std::memcpy(mapped, data, size_bytes);
    buffer.unmap(mapped);
    copied_bytes_ += size_bytes;
    return {buffer.handle(), 0};
  }

  // Planes in memory that is shared are read there; others are copied one after the other.
  cl_mem place_planes(const PlanePieces& from) {
    const size_t n_parts = from.parts.size();
    const Buffer& places = grow(places_, n_parts * sizeof(uint32_t));
    void* mapped_places = places.map(CL_MAP_WRITE_INVALIDATE_REGION, 0, n_parts * sizeof(uint32_t));
    auto* place = static_cast<uint32_t*>(mapped_places);
    const Shared* shared = shared_with_all(from);
    cl_mem words;
    if (shared != nullptr) {
      for (size_t i = 0; i < n_parts; ++i) place[i] = place_shared(*shared, from.parts[i]).first;
      words = shared->buffer->handle();
    } else {
      const Buffer& buffer = grow(input_, plane_bytes(from));
      void* mapped = buffer.map(CL_MAP_WRITE_INVALIDATE_REGION, 0, plane_bytes(from));
      copied_bytes_ += copy_planes(from, static_cast<uint32_t*>(mapped), place);
      buffer.unmap(mapped);
      words = buffer.handle();
    }
    places.unmap(mapped_places);
    return words;
  }

  const Shared* shared_with_all(const PlanePieces& from) const {
    const Shared* shared = shared_with(from.parts[0], 4);
    for (size_t i = 0; i < from.parts.size() && shared != nullptr; ++i) {
      if (shared_with(from.parts[i], part_bytes(from, i)) != shared) return nullptr;
    }
    return shared;
  }

  const Buffer& grow(std::unique_ptr<Buffer>& buffer, size_t size_bytes) {
    if (buffer == nullptr || buffer->size_bytes() < size_bytes) {
      buffer.reset();  // first: there may not be room for both
      buffer = std::make_unique<Buffer>(device_, std::max(size_bytes, kSmallestBuffer));
    }
    return *buffer;
  }

  void read(const Buffer& buffer, size_t offset, void* to, size_t size_bytes) {
    void* mapped = buffer.map(CL_MAP_READ, offset, size_bytes);
    std::memcpy(to, mapped, size_bytes);
    buffer.unmap(mapped);
  }

  Device device_;
  std::vector<Shared> shared_;
  std::unique_ptr<Buffer> input_, places_, results_;
  uint64_t copied_bytes_ = 0;
};

}  // namespace
}  // namespace opencl

std::unique_ptr<Reducer> make_opencl_reducer(const GpuOptions& options) {
  return std::make_unique<opencl::OpenClReducer>(options);
}

}  // namespace daf
