// Sums in an order that depends on n alone. Lanes add up a few terms in float, then in double: the
// error is that of a sum of a few dozen terms however long it is.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime_ops/kernels/common/vec.h"

namespace daf::DAF_ISA {

// Element i of an array, alone or with those after it.
struct VecAt {
  int64_t i;
  Vec operator()(const float* p) const { return load(p + i); }
  void set(float* p, Vec v) const { store(p + i, v); }
};
struct FloatAt {
  int64_t i;
  float operator()(const float* p) const { return p[i]; }
  void set(float* p, float v) const { p[i] = v; }
};

inline double sum_of_lanes(Vec v) {
  double total = 0;
  for (int i = 0; i < kWidth; ++i) total += v[i];
  return total;
}

// Adds term(at, 0) ... term(at, kSums - 1) over all elements to totals; `at` reads an array at the
// element, as in at(x) * at(y).
template <int kSums, class Term>
void add_sums(int64_t n, Term term, double (&totals)[kSums]) {
  constexpr int kLanes = 4, kTerms = 16;  // independent sums in flight; terms of each in float
  int64_t i = 0;
  while (i + kWidth <= n) {
    Vec part[kSums][kLanes] = {};
    const int64_t last = std::min(n, i + kLanes * kTerms * kWidth);
    for (; i + kLanes * kWidth <= last; i += kLanes * kWidth) {
      for (int lane = 0; lane < kLanes; ++lane) {
        Vec terms[kSums];
        term(VecAt{i + lane * kWidth}, terms);
        for (int s = 0; s < kSums; ++s) part[s][lane] += terms[s];
      }
    }
    for (; i + kWidth <= last; i += kWidth) {
      Vec terms[kSums];
      term(VecAt{i}, terms);
      for (int s = 0; s < kSums; ++s) part[s][0] += terms[s];
    }
    for (int s = 0; s < kSums; ++s) {
      totals[s] += sum_of_lanes((part[s][0] + part[s][1]) + (part[s][2] + part[s][3]));
    }
  }
  for (; i < n; ++i) {
    float terms[kSums];
    term(FloatAt{i}, terms);
    for (int s = 0; s < kSums; ++s) totals[s] += terms[s];
  }
}

// The sum of term(at) over all elements.
template <class Term>
double sum_terms(int64_t n, Term term) {
  double total[1] = {0};
  add_sums<1>(n, [=](auto at, auto& terms) { terms[0] = term(at); }, total);
  return total[0];
}

inline double sum(int64_t n, const float* x) {
  return sum_terms(n, [x](auto at) { return at(x); });
}

}  // namespace daf::DAF_ISA
