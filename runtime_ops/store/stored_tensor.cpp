#include "runtime_ops/store/stored_tensor.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime_ops/store/for_each_part.h"

namespace daf {
namespace {

// More values than the last cache of most processors holds.
bool is_large(int64_t n) { return n >= 4 << 20; }

}  // namespace

StoredTensor::Units StoredTensor::units(int64_t n_elements, size_t unit_bytes,
                                        const MapEncoding& map) {
  const auto to_units = [&](int64_t size_bytes) {
    return static_cast<uint32_t>((static_cast<size_t>(size_bytes) + unit_bytes - 1) / unit_bytes);
  };
  const int64_t n = n_headers(n_elements, map);
  const int64_t n_averages = map.is_used() ? n * map.rows() * map.columns() : 0;
  return {to_units(n * 4), to_units(n_averages * 2),
          to_units(n_groups(n_elements) * kPlaneGroupBytes),
          to_units(n * header_elements(map) * static_cast<int64_t>(sizeof(float)))};
}

size_t StoredTensor::exact_bytes(int64_t n) const {
  return static_cast<size_t>(n * header_elements(encoding())) * sizeof(float);
}

size_t StoredTensor::stored_bytes() const {
  if (headers.n_units == 0) return 0;
  const MapEncoding map = encoding();
  const int64_t n = n_headers(n_elements, map);
  const int64_t n_averages = map.is_used() ? n * map.rows() * map.columns() : 0;
  const int64_t n_bytes = n * 4 + n_averages * 2 + n_groups(n_elements) * kPlaneGroupBytes * bits;
  return static_cast<size_t>(n_bytes) + exact_bytes(n_exact);
}

// body(index, header) for each header.
template <class Body>
void StoredTensor::for_each_header(const PagePool& pool, Body body) const {
  const int64_t n = n_headers(n_elements, encoding());
  for (int64_t index = 0, end; index < n; index = end) {
    const Piece::Span span = headers.at(pool, static_cast<size_t>(index) * 4);
    end = std::min(n, index + static_cast<int64_t>(span.size_bytes / 4));
    auto* header = reinterpret_cast<uint32_t*>(span.data);
    for (int64_t i = index; i < end; ++i) body(i, *header++);
  }
}

double StoredTensor::mean_square_range(const PagePool& pool) const {
  const double n_steps = (1 << made_bits) - 1;
  double sum = 0;
  int64_t n_counted = 0;
  for_each_header(pool, [&](int64_t index, uint32_t header) {
    if ((header & kExactGroup) != 0) return;
    const uint32_t bits_of_scale = header & 0xffff0000;
    float scale;
    std::memcpy(&scale, &bits_of_scale, sizeof scale);
    const double square_range = scale * n_steps * scale * n_steps;
    sum += coding.form == PlaneForm::kRoots && maps == nullptr
               ? square_range * error_of_squares(pool, index, square_range)
               : square_range;
    ++n_counted;
  });
  return n_counted == 0 ? 0 : sum / static_cast<double>(n_counted);
}

// Of a group of roots with this range: the mean square of the errors of their squares, by that of
// the roots' own. With e the error of a root r, evenly spread over one step, it is that of 2 r e +
// e^2 - step^2 / 12, or step^2 / 12 (4 r^2 + step^2 / 15). The steps are those of one bit, where
// the last term weighs most.
double StoredTensor::error_of_squares(const PagePool& pool, int64_t group,
                                      double square_range) const {
  float values[kPlaneGroup];
  const int64_t count = std::min(kPlaneGroup, n_elements - group * kPlaneGroup);
  decode(pool, group * kPlaneGroup, count, values);
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += static_cast<double>(values[i]);
  return 4 * std::max(total / static_cast<double>(count), 0.0) + square_range / 15;
}

// The groups from `group` on whose headers and planes lie together.
StoredTensor::Run StoredTensor::run_at(const PagePool& pool, int64_t group, int n_planes) const {
  const Piece::Span span = headers.at(pool, static_cast<size_t>(group) * 4);
  Run run = {{}, static_cast<int64_t>(span.size_bytes / 4)};
  run.planes.bits = made_bits;
  run.planes.coding = coding_at(group);
  run.planes.headers = reinterpret_cast<uint32_t*>(span.data);
  if (n_planes > 0)
    run.n_groups = std::min(run.n_groups, planes_at(pool, group, n_planes, run.planes));
  return run;
}

// How many groups from `group` on lie together in each plane; there is one at least.
int64_t StoredTensor::planes_at(const PagePool& pool, int64_t group, int n_planes,
                                BitPlanes& run) const {
  size_t size_bytes = 0;  // the same in all of them
  for (int p = 0; p < n_planes; ++p) {
    const Piece::Span plane = planes[p].at(pool, static_cast<size_t>(group * kPlaneGroupBytes));
    run.plane[p] = reinterpret_cast<uint32_t*>(plane.data);
    size_bytes = plane.size_bytes;
  }
  run.bits = made_bits;
  run.coding = coding_at(group);
  return static_cast<int64_t>(size_bytes) / kPlaneGroupBytes;
}

int64_t StoredTensor::encode(const PagePool& pool, const float* x, const OrderedRange* ranges) {
  if (maps != nullptr) return encode_maps(pool, x);
  made_bits = bits;
  std::atomic<int64_t> n_marked{0};
  for_each_part(0, n_groups(n_elements), kGroupsPerPart, [&](int64_t group, int64_t last) {
    while (group < last) {
      const Run run = run_at(pool, group, bits);
      const int64_t end = std::min(last, group + run.n_groups);
      const int64_t from = group * kPlaneGroup, to = std::min(end * kPlaneGroup, n_elements);
      n_marked +=
          bitplane_encode_ranges(to - from, x + from, ranges != nullptr ? ranges + group : nullptr,
                                 is_large(n_elements), run.planes);
      group = end;
    }
  });
  return n_marked;
}

int64_t StoredTensor::encode_on(const PagePool& pool, const float* x, const OrderedRange* ranges,
                                const DevicePack& pack) {
  made_bits = bits;
  const int64_t last = n_groups(n_elements);
  std::vector<GroupCode> codes(static_cast<size_t>(last));
  int64_t n_marked = 0;
  for (int64_t group = 0, end; group < last; group = end) {
    const Run run = run_at(pool, group, 0);
    end = std::min(last, group + run.n_groups);
    n_marked += bitplane_headers(run.planes.coding, end - group, bits, ranges + group,
                                 run.planes.headers, codes.data() + group);
  }
  pack(codes.data(), pieces(pool, 0, n_elements));
  for (int64_t group = 0; group < last; ++group) {
    const Run run = run_at(pool, group, bits);
    const uint32_t header = run.planes.headers[0];
    if ((header & kExactGroup) != 0 || !is_too_small(header)) continue;
    const int64_t from = group * kPlaneGroup, to = std::min(from + kPlaneGroup, n_elements);
    bitplane_encode_ranges(to - from, x + from, ranges + group, false, run.planes);
  }
  return n_marked;
}

void StoredTensor::keep_exact(const PagePool& pool, const float* x) {
  const int64_t size = header_elements(encoding());
  uint32_t number = 0;
  for_each_header(pool, [&](int64_t index, uint32_t& header) {
    if ((header & kExactGroup) == 0) return;
    const int64_t count = std::min(size, n_elements - index * size);
    exact.write(pool, exact_bytes(number), x + index * size,
                static_cast<size_t>(count) * sizeof(float));
    header = kExactGroup | number++;
  });
}

void StoredTensor::decode(const PagePool& pool, int64_t first, int64_t count, float* out) const {
  if (maps != nullptr) return decode_maps(pool, first, count, out);
  const int64_t last = n_groups(first + count);
  for_each_part(first / kPlaneGroup, last, kGroupsPerPart, [&](int64_t group, int64_t last_group) {
    while (group < last_group) {
      Run run = run_at(pool, group, bits);
      run.n_groups = std::min(run.n_groups, last_group - group);
      const int64_t from = std::max(first, group * kPlaneGroup);
      const int64_t to = std::min(first + count, (group + run.n_groups) * kPlaneGroup);
      decode_run(pool, run, group, from, to - from, is_large(count), out + (from - first));
      group += run.n_groups;
    }
  });
}

void StoredTensor::decode_run(const PagePool& pool, const Run& run, int64_t group, int64_t first,
                              int64_t count, bool around_caches, float* out) const {
  bitplane_decode(run.planes, bits, first - group * kPlaneGroup, count, around_caches, out);
  if (n_exact == 0) return;
  for (int64_t g = 0; g < run.n_groups; ++g) {
    const uint32_t header = run.planes.headers[g];
    if ((header & kExactGroup) != 0) copy_exact(pool, header, group + g, first, count, out);
  }
}

void StoredTensor::copy_exact(const PagePool& pool, uint32_t header, int64_t index, int64_t first,
                              int64_t count, float* out) const {
  const int64_t size = header_elements(encoding()), start = index * size;
  const int64_t from = std::max(first, start), to = std::min(first + count, start + size);
  const size_t skipped = static_cast<size_t>(from - start) * sizeof(float);
  exact.read(pool, exact_bytes(header & ~kExactGroup) + skipped, out + (from - first),
             static_cast<size_t>(to - from) * sizeof(float));
}

PlanePieces StoredTensor::pieces(const PagePool& pool, int64_t first, int64_t count) const {
  PlanePieces result;
  result.bits = made_bits;
  result.n_planes = bits;
  result.groups_per_piece = static_cast<int64_t>(pool.unit_bytes()) / kPlaneGroupBytes;
  const int64_t step = result.groups_per_piece;
  const int64_t first_group = first / kPlaneGroup / step * step;
  result.first = first - first_group * kPlaneGroup;
  result.count = count;
  result.coding = coding_at(first_group);
  for (int64_t group = first_group; group < n_groups(first + count); group += step) {
    const Run run = run_at(pool, group, bits);
    result.parts.push_back(run.planes.headers);
    for (int p = 0; p < bits; ++p) result.parts.push_back(run.planes.plane[p]);
  }
  return result;
}

void StoredTensor::finish_decode(const PagePool& pool, int64_t first, int64_t count,
                                 float* out) const {
  const int64_t last = n_groups(first + count);
  for (int64_t group = first / kPlaneGroup, end; group < last; group = end) {
    const Run run = run_at(pool, group, bits);
    end = std::min(last, group + run.n_groups);
    for (int64_t g = group; g < end; ++g) {
      const uint32_t header = run.planes.headers[g - group];
      if ((header & kExactGroup) != 0) {
        copy_exact(pool, header, g, first, count, out);
      } else if (is_too_small(header)) {
        const int64_t from = std::max(first, g * kPlaneGroup);
        const int64_t to = std::min(first + count, (g + 1) * kPlaneGroup);
        bitplane_decode(run.planes, bits, from - group * kPlaneGroup, to - from, false,
                        out + (from - first));
      }
    }
  }
}

}  // namespace daf
