#include "runtime_ops/gpu/selector.h"

#include <algorithm>
#include <utility>

namespace daf {
namespace {

constexpr int kTrials = 2;
constexpr double kHopeless = 4;       // times slower than the best: one trial is enough
constexpr double kClose = 1.5;        // times slower: may be the best before long
constexpr int kUsesPerRival = 40;     // calls of the best between two of a rival
constexpr double kDrift = 1.0 / 3;    // of the time that the best was chosen for
constexpr int kDriftedInARow = 3;     // one slow call is chance
constexpr double kSmoothing = 0.125;  // of small changes of the best's time

}  // namespace

Selector::Selector(std::vector<std::vector<Variant>> variants_by_op)
    : variants_(std::move(variants_by_op)) {}

int64_t Selector::size_class(int64_t n) {
  int64_t step = 1;
  while (n / step >= 8) step *= 2;
  return n / step * step;
}

Selector::Class& Selector::class_of(ReduceOp op, int64_t n) {
  Class& c = classes_[{static_cast<int>(op), size_class(n)}];
  if (c.arms.empty()) {
    for (const Variant& variant : variants_[static_cast<size_t>(op)]) c.arms.push_back({variant});
    explore(c);
  }
  return c;
}

const Selector::Class* Selector::find(ReduceOp op, int64_t n) const {
  const auto found = classes_.find({static_cast<int>(op), size_class(n)});
  return found == classes_.end() ? nullptr : &found->second;
}

void Selector::explore(Class& c) {
  double best = 0;
  for (const Arm& arm : c.arms) {
    if (arm.ns > 0 && (best == 0 || arm.ns < best)) best = arm.ns;
  }
  for (Arm& arm : c.arms) {
    const bool is_hopeless = arm.ns > kHopeless * best;
    arm.n_left = is_hopeless ? 0 : arm.ns > 0 ? 1 : kTrials;
    arm.tried_ns = 0;
  }
  c.best = -1;
  c.n_used = c.n_drifted = 0;
  if (c.arms.size() == 1) c.best = 0;
}

// The first that has trials left; -1 when none has.
int Selector::next_to_try(Class& c) {
  double best = 0;
  for (const Arm& arm : c.arms) {
    if (arm.tried_ns > 0 && (best == 0 || arm.tried_ns < best)) best = arm.tried_ns;
  }
  for (size_t i = 0; i < c.arms.size(); ++i) {
    Arm& arm = c.arms[i];
    if (arm.tried_ns > kHopeless * best) arm.n_left = 0;
    if (arm.n_left > 0) return static_cast<int>(i);
  }
  return -1;
}

void Selector::settle(Class& c) {
  for (size_t i = 0; i < c.arms.size(); ++i) {
    Arm& arm = c.arms[i];
    if (arm.tried_ns > 0) arm.ns = arm.tried_ns;
    if (arm.ns > 0 && (c.best < 0 || arm.ns < c.arms[static_cast<size_t>(c.best)].ns)) {
      c.best = static_cast<int>(i);
    }
  }
  c.n_used = c.n_drifted = 0;
}

// One that is close to the best, each in turn; the best itself when there is none.
int Selector::rival(Class& c) {
  const double limit = kClose * c.arms[static_cast<size_t>(c.best)].ns;
  const int n = static_cast<int>(c.arms.size());
  for (int k = 0; k < n; ++k) {
    const int i = (c.next_rival + k) % n;
    if (i == c.best || c.arms[static_cast<size_t>(i)].ns > limit) continue;
    c.next_rival = i + 1;
    return i;
  }
  return c.best;
}

Variant Selector::choose(ReduceOp op, int64_t n) {
  Class& c = class_of(op, n);
  if (c.best < 0) {
    const int next = next_to_try(c);
    if (next >= 0) return c.arms[static_cast<size_t>(next)].variant;
    settle(c);
  }
  if (c.n_used >= kUsesPerRival) {
    c.n_used = 0;
    return c.arms[static_cast<size_t>(rival(c))].variant;
  }
  return c.arms[static_cast<size_t>(c.best)].variant;
}

void Selector::record(ReduceOp op, int64_t n, const Variant& variant, int64_t elapsed_ns) {
  Class& c = class_of(op, n);
  const auto found = std::find_if(c.arms.begin(), c.arms.end(),
                                  [&](const Arm& arm) { return arm.variant == variant; });
  if (found == c.arms.end() || c.arms.size() == 1) return;
  Arm& arm = *found;
  const double ns = std::max<double>(1, static_cast<double>(elapsed_ns));
  if (c.best < 0) {
    if (arm.n_left > 0) --arm.n_left;
    arm.tried_ns = arm.tried_ns == 0 ? ns : std::min(arm.tried_ns, ns);
    return;
  }
  Arm& best = c.arms[static_cast<size_t>(c.best)];
  if (&arm != &best) {  // a rival
    arm.ns = ns;
    if (ns < best.ns) c.best = static_cast<int>(found - c.arms.begin());
    return;
  }
  ++c.n_used;
  if (ns > best.ns * (1 + kDrift) || ns < best.ns * (1 - kDrift)) {
    if (++c.n_drifted >= kDriftedInARow) {
      best.ns = ns;
      explore(c);
    }
    return;
  }
  c.n_drifted = 0;
  best.ns += kSmoothing * (ns - best.ns);
}

void Selector::remove(Backend backend) {
  const auto is_gone = [&](const Variant& variant) { return variant.backend == backend; };
  for (std::vector<Variant>& variants : variants_) {
    variants.erase(std::remove_if(variants.begin(), variants.end(), is_gone), variants.end());
  }
  for (auto& entry : classes_) {
    Class& c = entry.second;
    c.arms.erase(std::remove_if(c.arms.begin(), c.arms.end(),
                                [&](const Arm& arm) { return is_gone(arm.variant); }),
                 c.arms.end());
    c.next_rival = 0;
    if (!c.arms.empty()) explore(c);
  }
}

std::vector<Selector::Entry> Selector::table() const {
  std::vector<Entry> table;
  for (const auto& [key, c] : classes_) {
    if (c.best < 0 || c.arms.size() < 2) continue;
    Entry entry = {static_cast<ReduceOp>(key.first), key.second, {}};
    for (const Arm& arm : c.arms) entry.timings.push_back({arm.variant.name(), arm.ns});
    table.push_back(std::move(entry));
  }
  return table;
}

void Selector::load(const std::vector<Entry>& table) {
  for (const Entry& entry : table) {
    Class& c = class_of(entry.op, entry.size);
    bool is_complete = true;
    for (Arm& arm : c.arms) {
      const auto known =
          std::find_if(entry.timings.begin(), entry.timings.end(),
                       [&](const Timing& timing) { return timing.variant == arm.variant.name(); });
      const bool is_known = known != entry.timings.end() && known->ns > 0;
      arm.ns = is_known ? known->ns : 0;
      is_complete &= is_known;
    }
    explore(c);
    if (is_complete) settle(c);
  }
}

std::string Selector::best(ReduceOp op, int64_t n) const {
  const Class* c = find(op, n);
  if (c == nullptr || c->best < 0) return "";
  return c->arms[static_cast<size_t>(c->best)].variant.name();
}

}  // namespace daf
