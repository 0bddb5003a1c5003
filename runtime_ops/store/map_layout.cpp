#include "runtime_ops/store/map_layout.h"

#include <algorithm>
#include <cmath>

namespace daf {
namespace {

// As interpolate(mode="nearest", size=size) of PyTorch, which rounds the ratio to float32.
std::vector<int32_t> nearest(int64_t n_averages, int64_t size) {
  std::vector<int32_t> places(static_cast<size_t>(size));
  const float ratio = static_cast<float>(n_averages) / static_cast<float>(size);
  for (int64_t i = 0; i < size; ++i) {
    const auto place = static_cast<int64_t>(std::floor(static_cast<float>(i) * ratio));
    places[static_cast<size_t>(i)] = static_cast<int32_t>(std::min(place, n_averages - 1));
  }
  return places;
}

}  // namespace

MapLayout::MapLayout(const MapEncoding& encoding) : encoding_(encoding) {
  if (!encoding.is_used()) return;
  row_of_ = nearest(encoding.rows(), encoding.height);
  if (encoding.columns() > 1 && encoding.columns() < encoding.width) {
    column_of_ = nearest(encoding.columns(), encoding.width);
    n_alike_.assign(column_of_.size(), 1);
    for (size_t x = column_of_.size() - 1; x-- > 0;) {
      if (column_of_[x] == column_of_[x + 1]) n_alike_[x] = n_alike_[x + 1] + 1;
    }
  }
}

int64_t MapLayout::band_end(int64_t y) const {
  return std::upper_bound(row_of_.begin() + y, row_of_.end(), row_of(y)) - row_of_.begin();
}

size_t MapLayout::bookkeeping_bytes() const {
  return sizeof(*this) +
         (row_of_.capacity() + column_of_.capacity() + n_alike_.capacity()) * sizeof(int32_t);
}

}  // namespace daf
