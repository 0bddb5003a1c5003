// Which variant is fastest, learned from how long they take. It knows no driver and no clock: it is
// told what there is and what it took, so the same timings always make the same choices.
//
// Per operation and size class (sizes that differ by a quarter at most):
//   explore   every variant, twice unless the first time was hopeless.
//   use       the best. Now and then one of those that were close is tried again, in turn, and
//             takes its place when it was faster.
//   drift     when the best takes a third more or less than when it was chosen, a few times in a
//             row (a processor that is throttled, or cools down), all that were not hopeless are
//             explored again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime_ops/gpu/reducer.h"

namespace daf {

class Selector {
 public:
  // What is known of one variant; this is what is kept between runs.
  struct Timing {
    std::string variant;  // its name
    double ns = 0;        // of a call
  };
  struct Entry {
    ReduceOp op;
    int64_t size;  // the smallest of its class, in values
    std::vector<Timing> timings;
  };

  explicit Selector(std::vector<std::vector<Variant>> variants_by_op);

  // What to use for n values. Tell record() what it took.
  Variant choose(ReduceOp op, int64_t n);
  void record(ReduceOp op, int64_t n, const Variant& variant, int64_t elapsed_ns);

  // Never chosen again: its device has failed.
  void remove(Backend backend);

  // Of every class that has been explored.
  std::vector<Entry> table() const;
  // Starts from what was learned before. Variants that there are not now are ignored, and a class
  // that lacks one is explored again.
  void load(const std::vector<Entry>& table);

  static int64_t size_class(int64_t n);  // the smallest size of the class of n
  // The name of what is used for n values now; empty while it is explored.
  std::string best(ReduceOp op, int64_t n) const;

 private:
  struct Arm {
    Variant variant;
    double ns = 0;        // of a call; 0: not known
    int n_left = 0;       // trials of this exploration
    double tried_ns = 0;  // the best of them
  };
  struct Class {
    std::vector<Arm> arms;
    int best = -1;  // -1: exploring
    int n_used = 0, n_drifted = 0, next_rival = 0;
  };

  Class& class_of(ReduceOp op, int64_t n);
  const Class* find(ReduceOp op, int64_t n) const;
  static void explore(Class& c);
  static int next_to_try(Class& c);
  static int rival(Class& c);
  static void settle(Class& c);

  std::vector<std::vector<Variant>> variants_;  // by operation
  std::map<std::pair<int, int64_t>, Class> classes_;
};

}  // namespace daf
