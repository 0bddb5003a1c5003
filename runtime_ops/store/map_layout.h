// Which average of a map each of its values takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime_ops/store/store.h"

namespace daf {

class MapLayout {
 public:
  explicit MapLayout(const MapEncoding& encoding);

  const MapEncoding& encoding() const { return encoding_; }
  int64_t n_elements() const { return encoding_.n_elements(); }
  int64_t n_averages() const { return encoding_.rows() * encoding_.columns(); }

  int32_t row_of(int64_t y) const { return row_of_[static_cast<size_t>(y)]; }
  // The first y whose values take another row of averages than those of `y`.
  int64_t band_end(int64_t y) const;
  // Of each x, the column of averages, and how many x from there on have the same. Null when all x
  // take column 0, or x takes column x.
  const int32_t* column_of() const { return column_of_.empty() ? nullptr : column_of_.data(); }
  const int32_t* n_alike() const { return n_alike_.data(); }

  size_t bookkeeping_bytes() const;

 private:
  MapEncoding encoding_;
  std::vector<int32_t> row_of_, column_of_, n_alike_;
};

}  // namespace daf
