// Sums in eight interleaved lanes: the order depends on n alone, and the compiler can keep the
// lanes in vector registers.
#pragma once

#include <cstdint>

namespace daf {

template <class Real>
struct Lanes {
  Real lane[8] = {};

  // Adds term(0) ... term(n - 1).
  template <class Term>
  void add(int64_t n, Term term) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      for (int l = 0; l < 8; ++l) lane[l] += term(i + l);
    }
    for (int l = 0; i < n; ++i, ++l) lane[l] += term(i);
  }

  Real total() const {
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  }
};

template <class Term>
double sum_terms(int64_t n, Term term) {
  Lanes<double> lanes;
  lanes.add(n, term);
  return lanes.total();
}

inline double sum(int64_t n, const float* x) {
  return sum_terms(n, [x](int64_t i) { return static_cast<double>(x[i]); });
}

}  // namespace daf
