// Which plane goes first: the tensors by what their last plane is worth, for each byte that it
// takes. O(log n), and nothing is allocated after construction.
#pragma once

#include <set>
#include <utility>
#include <vector>

namespace daf {

class DropOrder {
 public:
  explicit DropOrder(size_t n_tensors) : items_(n_tensors) {
    for (size_t id = 0; id < n_tensors; ++id) {
      // A node of the tree is made once and goes in and out.
      items_[id].node = tree_.extract(tree_.insert({0, static_cast<int>(id)}).first);
    }
  }

  // The error of the gradient is C / (2^bits - 1)^2: what dropping a plane of `bits` adds to it.
  static double loss_per_byte(double sensitivity, int bits, size_t plane_bytes) {
    const auto error = [](int b) { return 1.0 / (((1 << b) - 1.0) * ((1 << b) - 1.0)); };
    return sensitivity * (error(bits - 1) - error(bits)) / static_cast<double>(plane_bytes);
  }

  void insert(int id, double loss_per_byte) {
    Item& item = items_[id];
    item.key = {loss_per_byte, id};
    item.node.value() = item.key;
    tree_.insert(std::move(item.node));
  }

  void remove(int id) {
    if (contains(id)) items_[id].node = tree_.extract(items_[id].key);
  }

  bool contains(int id) const { return items_[id].node.empty(); }
  bool is_empty() const { return tree_.empty(); }
  int cheapest() const { return tree_.begin()->second; }  // equally cheap: the lowest id
  double loss_per_byte(int id) const { return items_[id].key.first; }
  size_t size() const { return tree_.size(); }

  size_t bookkeeping_bytes() const {
    constexpr size_t kNodeBytes = sizeof(Key) + 4 * sizeof(void*);
    return items_.capacity() * (sizeof(Item) + kNodeBytes);
  }

 private:
  using Key = std::pair<double, int>;
  struct Item {
    Key key;
    std::set<Key>::node_type node;  // while it is not in the tree
  };

  std::set<Key> tree_;  // red-black in every standard library there is
  std::vector<Item> items_;
};

}  // namespace daf
