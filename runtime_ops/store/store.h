// The activation store: what backward needs of forward, as bit-planes (kernels.h), alone or beside
// the averages of DIVISION, in a pool of pages that never exceeds its budget. When there is no room
// for a tensor, the cheapest planes of any tensor are dropped; what remains is still a valid
// encoding of fewer bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace daf {

class HybridReducer;

// DIVISION: a tensor is maps of height x width values that lie together. The averages of their
// blocks are kept whatever happens; planes hold what is left. Blocks begin at the top left; those
// that would not be whole are left out, and every value takes the average that the nearest
// upsampling of PyTorch gives it.
struct MapEncoding {
  int64_t height = 0, width = 0;  // 0: no maps, but groups of 256 values with bit-planes alone
  int64_t block_height = 0, block_width = 0;

  bool is_used() const { return height > 0; }
  int64_t n_elements() const { return height * width; }
  int64_t rows() const { return height / block_height; }  // of averages
  int64_t columns() const { return width / block_width; }
};

// A tensor of the plan. Its place in the plan is its id.
struct StoreEntry {
  std::string name;        // for messages
  int64_t n_elements = 0;  // the most that one stash holds
  int bits = 2;            // planes at most, 1 to 8
  int min_bits = 1;        // planes that are never dropped, 1 to `bits`
  // C: the error of the gradient is C / (2^bits - 1)^2. The unit does not matter; >= 0.
  double sensitivity = 1;
  MapEncoding map = {};
  bool are_probabilities = false;  // none is negative, and most are small
};

struct StoreOptions {
  size_t budget_bytes = 0;
  size_t fit_bytes = 0;        // bits are chosen to fit into this, if it is less than the budget
  size_t grow_step_bytes = 0;  // 0: adaptive
  // A step starts with bits that fit, or that the last one ended with, so that a plane that would
  // be dropped is not even made. False: with those of the plan, and drops under pressure.
  bool keep_bits = true;
  // A power of two, at least a page of the operating system. 16 KB is such a page on the newer
  // phones; with 4 KB the pool wastes 0.1 % instead of 1 % and needs four times the bookkeeping,
  // with 64 KB it wastes 5 %. The time is the same (`daf bench store`).
  size_t page_bytes = 16384;
};

struct StoreEvent {
  enum class Kind { kStash, kFetch, kDrop, kGrow, kTrim, kRelease };
  Kind kind;
  int tensor;           // -1 for kGrow and kTrim
  int bits;             // of the tensor, after the event
  size_t raw_bytes;     // of the tensor as float32; the budget for kGrow and kTrim
  size_t stored_bytes;  // of the tensor after the event; what is committed for kGrow and kTrim
  size_t used_bytes;    // of the pool, after the event
};
const char* name_of(StoreEvent::Kind kind);

// Bytes of the pool are those of whole pages.
struct StoreStats {
  size_t budget_bytes;                  // used <= committed <= budget, always
  size_t used_bytes;                    // pages that hold something
  size_t committed_bytes;               // pages that the operating system backs
  size_t reserved_bytes;                // addresses
  size_t peak_used_bytes;               // since the store was made
  size_t stored_bytes;                  // what the tensors need, to the byte
  size_t waste_bytes;                   // used - stored
  size_t raw_bytes;                     // of the stored tensors as float32
  size_t largest_free_bytes;            // the largest tensor part that would fit without a drop
  size_t bookkeeping_bytes;             // on the heap, not in the pool
  int64_t exact_groups;                 // or maps, in float32 because a value is not finite
  int64_t n_grows, n_trims, n_moves;    // n_moves: blocks moved to make whole pages free
  std::array<int64_t, 9> drops_by_bit;  // [b]: planes dropped from tensors that had b of them
};

// For one training session. trim(), bits(), stats(), set_sensitivity() and read() may come from any
// thread, read() from several at once; begin_step(), stash() and release() from one at a time.
// Wrong use (an unknown id, a tensor stored twice, a range outside) throws std::logic_error.
// Nothing is allocated on the heap after construction.
class ActivationStore {
 public:
  // Throws std::invalid_argument for a plan that makes no sense, and for a budget that is too
  // small, naming the smallest that would do.
  ActivationStore(std::vector<StoreEntry> plan, const StoreOptions& options);
  ~ActivationStore();
  ActivationStore(const ActivationStore&) = delete;
  ActivationStore& operator=(const ActivationStore&) = delete;

  // What the whole plan takes in whole pages, headers included: with min_bits everywhere (a smaller
  // budget is refused), and with `bits` everywhere (with this budget nothing is ever dropped).
  // Groups (1 KB each) and maps with values that are not finite come on top.
  static size_t floor_bytes(const std::vector<StoreEntry>& plan, size_t page_bytes = 16384);
  static size_t planned_bytes(const std::vector<StoreEntry>& plan, size_t page_bytes = 16384);

  // Everything of the last step must have been released.
  // Adopts what set_sensitivity() was told. In the first step, after that, and after the budget
  // changed, the bits are chosen anew: those of the plan, or fewer where the budget asks for it.
  void begin_step(uint64_t seed, uint64_t step);

  // Encodes n_elements values (at most the plan's; all of them by default; whole maps) at the
  // tensor's bits, after making room. Throws std::runtime_error when the groups that must be kept
  // exact leave no room even with min_bits everywhere; the tensor is then not stored.
  void stash(int id, const float* x);
  void stash(int id, const float* x, int64_t n_elements);

  void begin_fetch(int id);  // tells the observer that reading starts; nothing else

  // Decodes the values [first, first + count). Values of two calls may differ in precision when
  // planes are dropped between them.
  void read(int id, int64_t first, int64_t count, float* out) const;

  // The mean over its groups or maps of the square of maximum - minimum, of what there are codes
  // of, for an error of the values like that of plain ones; exact groups do not count.
  double mean_square_range(int id) const;

  void release(int id);
  void release_all();  // what a step that failed has left

  // Sets the budget, at once: planes are dropped and pages given back before it returns. A budget
  // below floor_bytes(), or below what the stored tensors take at their floors, is raised to that.
  // Returns the budget that is now in force.
  size_t trim(size_t budget_bytes);

  void set_sensitivity(int id, double sensitivity);  // from the next begin_step() on

  // What encodes and decodes; null, and until it is set: the CPU. It must outlive the store, and be
  // set before the first step.
  void set_reducer(HybridReducer* reducer);
  bool shares_pool() const;  // the reducer's GPU reads the pool where it lies

  // Planes of a stored tensor; otherwise those that its next stash starts with.
  int bits(int id) const;
  StoreStats stats() const;
  const std::vector<StoreEntry>& plan() const { return plan_; }

  // Checks every invariant; false says why.
  bool is_valid(std::string* why) const;

  // Called after each event, on the thread that caused it, with the store locked: it must not call
  // the store. Set it before the first step.
  void set_observer(std::function<void(const StoreEvent&)> observer);

 private:
  class State;
  std::vector<StoreEntry> plan_;
  std::unique_ptr<State> state_;
};

}  // namespace daf
