// A tensor whose values are those of maps (DIVISION): see kernels.h for what is computed.
#include <algorithm>
#include <array>
#include <atomic>

#include "runtime_ops/store/for_each_part.h"
#include "runtime_ops/store/stored_tensor.h"

namespace daf {
namespace {

// Elements of a piece, looked at in order: the span that was found last is kept.
template <class T>
class Window {
 public:
  Window(const Piece& piece, const PagePool& pool) : piece_(piece), pool_(pool) {}

  T* at(int64_t index) {
    if (index < first_ || index >= first_ + n_) {
      const Piece::Span span = piece_.at(pool_, static_cast<size_t>(index) * sizeof(T));
      data_ = reinterpret_cast<T*>(span.data);
      first_ = index;
      n_ = static_cast<int64_t>(span.size_bytes / sizeof(T));
    }
    return data_ + (index - first_);
  }
  // Elements that lie together with the one looked at last, from there on.
  int64_t n_from(int64_t index) const { return first_ + n_ - index; }

 private:
  const Piece& piece_;
  const PagePool& pool_;
  T* data_ = nullptr;
  int64_t first_ = 0, n_ = 0;
};

// The segments of consecutive values.
class Segments {
 public:
  static constexpr int64_t kMost = kPlaneGroup;
  using Array = std::array<MapSegment, kMost>;

  Segments(const StoredTensor& tensor, const PagePool& pool, int64_t first, bool with_headers)
      : layout_(*tensor.maps),
        encoding_(layout_.encoding()),
        averages_(tensor.averages, pool),
        headers_(tensor.headers, pool),
        with_headers_(with_headers),
        map_(first / layout_.n_elements()),
        y_(first % layout_.n_elements() / encoding_.width),
        x_(first % encoding_.width) {
    enter_map();
  }

  // Those of the next `count` values; returns how many segments these are. It may stop early when
  // there are many: `count` is then less.
  int64_t next(int64_t* count, Array& segments) {
    int64_t n = 0, done = 0;
    for (; done < *count && n < kMost; ++n) {
      segments[static_cast<size_t>(n)] = next(*count - done);
      done += segments[static_cast<size_t>(n)].count;
    }
    *count = done;
    return n;
  }

 private:
  MapSegment next(int64_t most) {
    if (y_ == encoding_.height) {
      ++map_;
      y_ = 0;
      enter_map();
    }
    if (y_ == band_end_) enter_band();
    const int64_t width = encoding_.width, columns = encoding_.columns();
    MapSegment segment = {};
    segment.header = header_;
    segment.is_one_average = columns == 1;
    most = std::min(most, kPlaneGroup);
    if (columns == 1) {
      segment.average = averages_.at(row_);
      segment.count = std::min(most, (band_end_ - y_) * width - x_);
    } else if (layout_.column_of() == nullptr) {
      const int64_t place = row_ * columns + x_;
      segment.average = averages_.at(place);
      segment.count = std::min({most, width - x_, averages_.n_from(place)});
    } else {
      const int32_t* column = layout_.column_of() + x_;
      const int64_t place = row_ * columns + *column;
      segment.average = averages_.at(place);
      segment.n_alike = layout_.n_alike() + x_;
      segment.count = std::min(most, width - x_);
      const int64_t end = *column + averages_.n_from(place);  // of the columns that lie together
      if (column[segment.count - 1] >= end) {
        segment.count = std::lower_bound(column, column + segment.count, end) - column;
      }
    }
    x_ += segment.count;
    if (x_ >= width) {
      y_ += x_ / width;
      x_ %= width;
    }
    return segment;
  }

  void enter_map() {
    if (with_headers_) header_ = *headers_.at(map_);
    enter_band();
  }

  void enter_band() {
    row_ = map_ * encoding_.rows() + layout_.row_of(y_);
    band_end_ = layout_.band_end(y_);
  }

  const MapLayout& layout_;
  const MapEncoding& encoding_;
  Window<const uint16_t> averages_;
  Window<const uint32_t> headers_;
  const bool with_headers_;
  int64_t map_, y_, x_;
  int64_t row_ = 0, band_end_ = 0;  // the row of averages, over all maps; where its values end
  uint32_t header_ = 0;
};

// Makes averages and headers of consecutive maps.
class MapMaker {
 public:
  MapMaker(const StoredTensor& tensor, const PagePool& pool, int64_t first_map)
      : layout_(*tensor.maps),
        bits_(tensor.bits),
        map_(first_map),
        averages_(tensor.averages, pool),
        headers_(tensor.headers, pool),
        segments_(tensor, pool, first_map * layout_.n_elements(), false) {}

  // x[0] is the first value of the next map. Returns its header.
  uint32_t next(const float* x) {
    make_averages(x);
    MapRange range;
    for (int64_t done = 0, count; done < layout_.n_elements(); done += count) {
      count = layout_.n_elements() - done;
      const int64_t n = segments_.next(&count, some_);
      division_range(n, some_.data(), x + done, &range);
    }
    return *headers_.at(map_++) = division_header(range, bits_);
  }

 private:
  void make_averages(const float* x) {
    const MapEncoding& encoding = layout_.encoding();
    int64_t place = map_ * layout_.n_averages();
    for (int64_t row = 0; row < encoding.rows(); ++row) {
      const float* blocks = x + row * encoding.block_height * encoding.width;
      for (int64_t column = 0, n; column < encoding.columns(); column += n, place += n) {
        uint16_t* averages = averages_.at(place);
        n = std::min(encoding.columns() - column, averages_.n_from(place));
        division_averages(n, encoding.block_height, encoding.block_width, encoding.width,
                          blocks + column * encoding.block_width, averages);
      }
    }
  }

  const MapLayout& layout_;
  const int bits_;
  int64_t map_;
  Window<uint16_t> averages_;
  Window<uint32_t> headers_;
  Segments segments_;
  Segments::Array some_;
};

}  // namespace

int64_t StoredTensor::encode_maps(const PagePool& pool, const float* x) {
  made_bits = bits;
  const int64_t size = maps->n_elements();
  std::atomic<int64_t> n_marked{0};
  const int64_t maps_per_part = std::max<int64_t>(1, kGroupsPerPart * kPlaneGroup / size);
  for_each_part(0, n_elements / size, maps_per_part, [&](int64_t map, int64_t last) {
    MapMaker maker(*this, pool, map);
    for (; map < last; ++map) {
      if ((maker.next(x + map * size) & kExactGroup) != 0) ++n_marked;
    }
  });
  for_each_part(0, n_groups(n_elements), kGroupsPerPart, [&](int64_t group, int64_t last) {
    Segments segments(*this, pool, group * kPlaneGroup, true);
    Segments::Array some;
    for (; group < last; ++group) {
      int64_t count = std::min(kPlaneGroup, n_elements - group * kPlaneGroup);
      const int64_t n = segments.next(&count, some);
      BitPlanes run = {};
      planes_at(pool, group, bits, run);
      division_encode(n, some.data(), x + group * kPlaneGroup, run);
    }
  });
  return n_marked;
}

void StoredTensor::decode_maps(const PagePool& pool, int64_t first, int64_t count,
                               float* out) const {
  const int64_t last = first + count;
  for_each_part(first / kPlaneGroup, n_groups(last), kGroupsPerPart,
                [&](int64_t group, int64_t end) {
                  int64_t from = std::max(first, group * kPlaneGroup);
                  Segments segments(*this, pool, from, true);
                  Segments::Array some;
                  for (; group < end; ++group) {
                    int64_t n_values = std::min(last, (group + 1) * kPlaneGroup) - from;
                    const int64_t n = segments.next(&n_values, some);
                    BitPlanes run = {};
                    planes_at(pool, group, bits, run);
                    division_decode(run, bits, from - group * kPlaneGroup, n, some.data(),
                                    out + (from - first));
                    if (n_exact > 0) copy_exact_maps(pool, from, n_values, out + (from - first));
                    from += n_values;
                  }
                });
}

void StoredTensor::copy_exact_maps(const PagePool& pool, int64_t first, int64_t count,
                                   float* out) const {
  Window<const uint32_t> map_headers(headers, pool);
  for (int64_t map = first / maps->n_elements(); map * maps->n_elements() < first + count; ++map) {
    const uint32_t header = *map_headers.at(map);
    if ((header & kExactGroup) != 0) copy_exact(pool, header, map, first, count, out);
  }
}

}  // namespace daf
