#include <algorithm>
#include <cstring>

#include "runtime_ops/gpu/options.h"
#include "runtime_ops/gpu/tiles.h"
#include "runtime_ops/gpu/vulkan/device.h"
#include "runtime_ops/gpu/vulkan/pipelines.h"

namespace daf {
namespace vulkan {
namespace {

constexpr VkDeviceSize kSmallestBuffer = 1 << 16;

// Where values are: the view starts at most some bytes before them.
struct Place {
  View view;
  uint32_t first = 0;  // of the values, in the view
};

class VulkanReducer final : public Reducer {
 public:
  explicit VulkanReducer(const GpuOptions& options) : device_(options), pipelines_(device_) {}

  const ReduceDevice& device() const override { return device_.info(); }

  std::vector<Variant> variants(ReduceOp op) const override {
    return gpu_variants(device_.info(), op);
  }

  bool share(void* data, size_t size_bytes) override {
    const VkDeviceSize alignment = device_.import_alignment();
    if (alignment == 0 || size_bytes == 0 || reinterpret_cast<uintptr_t>(data) % alignment != 0) {
      return false;
    }
    try {
      const VkDeviceSize whole = (size_bytes + alignment - 1) / alignment * alignment;
      shared_.push_back(std::make_unique<Buffer>(device_, data, whole));
      return true;
    } catch (const GpuError&) {
      return false;
    }
  }

  void unshare(void* data) override {
    shared_.erase(std::remove_if(shared_.begin(), shared_.end(),
                                 [&](const auto& buffer) { return buffer->data() == data; }),
                  shared_.end());
  }

  uint64_t copied_bytes() const override { return copied_bytes_; }

  void pack(int64_t n, const float* x, const GroupCode* codes, const PlanePieces& to) override {
    const uint32_t workgroup = static_cast<uint32_t>(device().workgroup_size);
    const auto n_groups = static_cast<uint32_t>(to.n_groups());
    const Place values = place_input(x, static_cast<size_t>(n) * sizeof(float));
    const size_t n_parts = to.parts.size() / (1 + static_cast<size_t>(to.bits));
    const size_t codes_bytes = n_groups * sizeof(GroupCode);
    const size_t tables_bytes = codes_bytes + n_parts * static_cast<size_t>(to.bits) * 4;
    const Buffer& tables = grow(places_, tables_bytes, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    std::memcpy(tables.data(), codes, codes_bytes);
    auto* place = reinterpret_cast<uint32_t*>(tables.data() + codes_bytes);
    const Buffer* shared = shared_with_all(to);
    const Buffer& words = shared != nullptr ? *shared : make_results(plane_bytes(to));
    uint32_t next = 0;
    for_each_plane(to, [&](size_t part, size_t size_bytes) {
      const auto* start = reinterpret_cast<const uint8_t*>(to.parts[part]);
      *place++ = shared == nullptr ? next : static_cast<uint32_t>((start - words.data()) / 4);
      next += static_cast<uint32_t>(size_bytes / 4);
    });
    device_.run([&](VkCommandBuffer commands) {
      pipelines_.dispatch(
          commands, 0, Shader::kPack, {workgroup},
          {values.view,
           {tables.handle(), 0, tables_bytes},
           {words.handle(), 0, words.size_bytes()}},
          {values.first, static_cast<uint32_t>(n), n_groups, static_cast<uint32_t>(to.bits),
           static_cast<uint32_t>(to.groups_per_piece)},
          std::min(divide(8 * n_groups, workgroup / 32), kMaxWorkgroups));
    });
    if (shared != nullptr) return;
    next = 0;
    for_each_plane(to, [&](size_t part, size_t size_bytes) {
      std::memcpy(const_cast<uint32_t*>(to.parts[part]), words.data() + next, size_bytes);
      next += static_cast<uint32_t>(size_bytes);
    });
    copied_bytes_ += next;
  }

 private:
  OrderedRange do_find_range(const Variant& variant, int64_t n, const float* x) override {
    const Place values = place_input(x, static_cast<size_t>(n) * sizeof(float));
    const uint32_t workgroup = static_cast<uint32_t>(device().workgroup_size);
    const bool is_vec4 = variant.is_vec4 && values.first % 4 == 0;
    const auto shader = variant.uses_subgroups ? Shader::kRangeSubgroups : Shader::kRange;
    const auto count = static_cast<uint32_t>(n);
    const uint32_t tile = tile_of(count);
    VkDeviceSize result_offset = 0;
    if (variant.is_atomic) {
      const View result = {make_results(8).handle(), 0, 8};
      device_.run([&](VkCommandBuffer commands) {
        vkCmdFillBuffer(commands, result.buffer, 0, result.size_bytes, 0);
        device_.barrier_after_fill(commands);
        pipelines_.dispatch(commands, 0, shader, {workgroup, is_vec4, true, false},
                            {values.view, values.view, result}, {values.first, count, tile},
                            divide(count, tile));
      });
    } else {
      // Each pass leaves its ranges behind those of the last one.
      const std::vector<uint32_t> counts = tree_counts(count, workgroup);
      std::vector<VkDeviceSize> offsets;
      VkDeviceSize size_bytes = 0;
      for (size_t pass = 1; pass < counts.size(); ++pass) {
        offsets.push_back(size_bytes);
        size_bytes += align(counts[pass] * VkDeviceSize{8});
      }
      const VkBuffer results = make_results(size_bytes).handle();
      device_.run([&](VkCommandBuffer commands) {
        Place from = values;
        for (size_t pass = 0; pass < offsets.size(); ++pass) {
          if (pass > 0) device_.barrier(commands);
          const View to = {results, offsets[pass], counts[pass + 1] * VkDeviceSize{8}};
          pipelines_.dispatch(commands, static_cast<int>(pass), shader,
                              {workgroup, is_vec4 && pass == 0, false, pass > 0},
                              {from.view, from.view, to},
                              {from.first, counts[pass], tile_of(counts[pass])}, counts[pass + 1]);
          from = {to, 0};
        }
      });
      result_offset = offsets.back();
    }
    OrderedRange range;
    std::memcpy(&range, results_->data() + result_offset, sizeof(range));
    return range;
  }

  void do_find_ranges(const Variant& variant, int64_t n, int64_t group_size, const float* x,
                      OrderedRange* ranges) override {
    const Place values = place_input(x, static_cast<size_t>(n) * sizeof(float));
    const uint32_t workgroup = static_cast<uint32_t>(device().workgroup_size);
    const bool is_vec4 = variant.is_vec4 && values.first % 4 == 0 && group_size % 4 == 0;
    const auto n_groups = static_cast<uint32_t>((n + group_size - 1) / group_size);
    const uint32_t lanes = lanes_of_group(static_cast<uint32_t>(group_size), workgroup);
    // With subgroups it is known only to the device how many a workgroup has.
    const uint32_t at_once = std::max(
        1u, workgroup /
                (variant.uses_subgroups ? static_cast<uint32_t>(device().subgroup_size) : lanes));
    const size_t size_bytes = n_groups * sizeof(OrderedRange);
    const Place to = {{make_results(size_bytes).handle(), 0, size_bytes}, 0};
    device_.run([&](VkCommandBuffer commands) {
      pipelines_.dispatch(
          commands, 0, variant.uses_subgroups ? Shader::kRangesSubgroups : Shader::kRanges,
          {workgroup, is_vec4, lanes}, {values.view, values.view, to.view},
          {values.first, static_cast<uint32_t>(n), static_cast<uint32_t>(group_size), n_groups},
          std::min(divide(n_groups, at_once), kMaxWorkgroups));
    });
    take_output(to, ranges, size_bytes);
  }

  void do_decode(const Variant&, const PlanePieces& from, float* y) override {
    const uint32_t workgroup = static_cast<uint32_t>(device().workgroup_size);
    const Words words = place_planes(from);
    const size_t size_bytes = static_cast<size_t>(from.count) * sizeof(float);
    const Place to = place_output(y, size_bytes);
    const auto count = static_cast<uint32_t>(from.count);
    const Arguments arguments = {static_cast<uint32_t>(from.first),
                                 count,
                                 to.first,
                                 static_cast<uint32_t>(from.n_planes),
                                 static_cast<uint32_t>(std::max(from.bits, 1) - from.n_planes),
                                 static_cast<uint32_t>(from.groups_per_piece),
                                 from.is_dithered(),
                                 from.noise_base()};
    device_.run([&](VkCommandBuffer commands) {
      pipelines_.dispatch(commands, 0, Shader::kDecode, {workgroup},
                          {words.words, words.places, to.view}, arguments,
                          std::min(divide(count, workgroup), kMaxWorkgroups));
    });
    take_output(to, y, size_bytes);
  }

  // ---- where data is -----------------------------------------------------------------------

  VkDeviceSize align(VkDeviceSize offset) const {
    const VkDeviceSize alignment =
        std::max<VkDeviceSize>(device_.limits().minStorageBufferOffsetAlignment, 16);
    return (offset + alignment - 1) / alignment * alignment;
  }

  const Buffer* shared_with(const void* data, size_t size_bytes) const {
    const auto* begin = static_cast<const uint8_t*>(data);
    for (const auto& buffer : shared_) {
      if (begin >= buffer->data() && begin + size_bytes <= buffer->data() + buffer->size_bytes()) {
        return buffer.get();
      }
    }
    return nullptr;
  }

  Place place_shared(const Buffer& buffer, const void* data, size_t size_bytes) const {
    const auto offset =
        static_cast<VkDeviceSize>(static_cast<const uint8_t*>(data) - buffer.data());
    const VkDeviceSize begin = align(offset + 1) - align(1);  // rounded down
    return {{buffer.handle(), begin, offset - begin + size_bytes},
            static_cast<uint32_t>((offset - begin) / 4)};
  }

  Place place_input(const void* data, size_t size_bytes) {
    const Buffer* shared = shared_with(data, size_bytes);
    if (shared != nullptr) return place_shared(*shared, data, size_bytes);
    const Buffer& buffer = grow(input_, size_bytes, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    std::memcpy(buffer.data(), data, size_bytes);
    copied_bytes_ += size_bytes;
    return {{buffer.handle(), 0, size_bytes}, 0};
  }

  Place place_output(void* data, size_t size_bytes) {
    const Buffer* shared = shared_with(data, size_bytes);
    if (shared != nullptr) return place_shared(*shared, data, size_bytes);
    return {{make_results(size_bytes).handle(), 0, size_bytes}, 0};
  }

  void take_output(const Place& place, void* data, size_t size_bytes) {
    if (place.view.buffer != results_handle()) return;
    std::memcpy(data, results_->data(), size_bytes);
    copied_bytes_ += size_bytes;
  }

  struct Words {
    View words, places;
  };

  // Planes in memory that is shared are read there; others are copied one after the other.
  Words place_planes(const PlanePieces& from) {
    const size_t n_parts = from.parts.size();
    const Buffer& places =
        grow(places_, n_parts * sizeof(uint32_t), VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    auto* place = reinterpret_cast<uint32_t*>(places.data());
    const View places_view = {places.handle(), 0, n_parts * sizeof(uint32_t)};
    const Buffer* shared = shared_with_all(from);
    if (shared != nullptr) {
      for (size_t i = 0; i < n_parts; ++i) {
        place[i] = static_cast<uint32_t>(
            (reinterpret_cast<const uint8_t*>(from.parts[i]) - shared->data()) / 4);
      }
      return {{shared->handle(), 0, shared->size_bytes()}, places_view};
    }
    const Buffer& buffer = grow(input_, plane_bytes(from), VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    const size_t copied = copy_planes(from, reinterpret_cast<uint32_t*>(buffer.data()), place);
    copied_bytes_ += copied;
    return {{buffer.handle(), 0, copied}, places_view};
  }

  const Buffer* shared_with_all(const PlanePieces& from) const {
    const Buffer* shared = shared_with(from.parts[0], 4);
    if (shared == nullptr || shared->size_bytes() > device_.limits().maxStorageBufferRange) {
      return nullptr;
    }
    for (size_t i = 0; i < from.parts.size(); ++i) {
      if (shared_with(from.parts[i], part_bytes(from, i)) != shared) return nullptr;
    }
    return shared;
  }

  const Buffer& grow(std::unique_ptr<Buffer>& buffer, VkDeviceSize size_bytes,
                     VkMemoryPropertyFlags preferred) {
    if (buffer == nullptr || buffer->size_bytes() < size_bytes) {
      buffer.reset();  // first: there may not be room for both
      buffer = std::make_unique<Buffer>(device_, std::max(size_bytes, kSmallestBuffer), preferred);
    }
    return *buffer;
  }

  const Buffer& make_results(VkDeviceSize size_bytes) {
    return grow(results_, size_bytes, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  }
  VkBuffer results_handle() const { return results_ ? results_->handle() : VK_NULL_HANDLE; }

  uint32_t tile_of(uint32_t n) const {
    return values_per_workgroup(n, static_cast<uint32_t>(device().workgroup_size));
  }

  Device device_;
  Pipelines pipelines_;
  std::vector<std::unique_ptr<Buffer>> shared_;
  std::unique_ptr<Buffer> input_, places_, results_;
  uint64_t copied_bytes_ = 0;
};

}  // namespace
}  // namespace vulkan

std::unique_ptr<Reducer> make_vulkan_reducer(const GpuOptions& options) {
  return std::make_unique<vulkan::VulkanReducer>(options);
}

}  // namespace daf
