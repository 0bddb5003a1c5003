// The state of an ActivationStore and what happens to it, without locks: store.cpp has those.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime_ops/store/drop_order.h"
#include "runtime_ops/store/fair_shared_mutex.h"
#include "runtime_ops/store/store.h"
#include "runtime_ops/store/stored_tensor.h"

namespace daf {

class ActivationStore::State {
 public:
  State(const std::vector<StoreEntry>& plan, const StoreOptions& options);
  ~State() { unshare_pool(); }

  void begin_step(uint64_t seed, uint64_t step);
  void stash(int id, const float* x, int64_t n_elements);
  void begin_fetch(int id);
  void read(int id, int64_t first, int64_t count, float* out) const;
  double mean_square_range(int id) const;
  void release(int id);
  void release_all();
  size_t trim(size_t budget_bytes);
  void set_sensitivity(int id, double sensitivity);
  void set_reducer(HybridReducer* reducer);
  bool shares_pool() const { return shared_pages_ > 0; }
  int bits(int id) const;
  StoreStats stats() const;
  bool is_valid(std::string* why) const;

  std::function<void(const StoreEvent&)> observer;
  mutable FairSharedMutex mutex;

 private:
  struct Item {
    StoredTensor tensor;
    bool is_stored = false;
    uint32_t plane_units = 0;
  };

  Item& item_of(int id, const char* action);
  const Item& item_of(int id, const char* action) const {
    return const_cast<State*>(this)->item_of(id, action);
  }
  [[noreturn]] void fail(int id, const char* action, const std::string& reason) const;

  bool is_for_device(const StoredTensor& tensor) const;
  bool store(int id, const float* x, int64_t* n_marked);
  template <class IsWanted>
  bool allocate(Piece& piece, uint32_t n_units, IsWanted is_wanted);
  bool drop_cheapest();
  void drop_all(int id);
  void put_in_order(int id);
  double loss_per_byte(int id, int bits) const;
  void report(StoreEvent::Kind kind, int id);
  size_t used_bytes() const { return pool_.used_pages() * options_.page_bytes; }
  int64_t n_exact_groups() const;
  void make_places();
  void unshare_pool();

  const std::vector<StoreEntry>& plan_;
  const StoreOptions options_;
  PagePool pool_;
  const size_t floor_pages_;
  const std::vector<MapLayout> layouts_;  // by tensor
  std::vector<Item> items_;
  std::vector<int> start_bits_;  // of the next stash
  std::vector<double> sensitivity_, next_sensitivity_;
  std::vector<uint32_t> places_;  // for the numbers of all blocks that there can ever be
  DropOrder order_;
  uint64_t seed_ = 0, step_ = 0;
  size_t budget_bytes_;
  bool starts_over_ = true;  // the bits of the next step are chosen anew
  size_t peak_used_bytes_ = 0;
  int64_t n_trims_ = 0;
  std::array<int64_t, 9> drops_by_bit_ = {};
  const PagePool::Moved moved_;
  HybridReducer* reducer_ = nullptr;
  size_t shared_pages_ = 0;  // that a GPU uses where they lie
};

}  // namespace daf
