#include "runtime_ops/store/plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "runtime_ops/store/stored_tensor.h"

namespace daf {
namespace {

constexpr uint32_t kUnits = PagePool::kUnitsPerPage;
constexpr int64_t kMaxElements = int64_t{1} << 33;  // 32 GB: what a device will not have

[[noreturn]] void refuse(const std::string& text) {
  throw std::invalid_argument("cannot make the activation store: " + text);
}

// What shares pages can always be moved together (page_pool.h), so only the sum counts.
struct PageCount {
  size_t whole = 0, shared_units = 0;

  void add(uint32_t n_units, int times = 1) {
    whole += static_cast<size_t>(times) * (n_units / kUnits);
    shared_units += static_cast<size_t>(times) * (n_units % kUnits);
  }
  void remove(uint32_t n_units) {
    whole -= n_units / kUnits;
    shared_units -= n_units % kUnits;
  }
  size_t total() const { return whole + (shared_units + kUnits - 1) / kUnits; }
};

template <class Add>
size_t count_pages(const std::vector<StoreEntry>& plan, size_t page_bytes, Add add) {
  PageCount pages;
  for (const StoreEntry& entry : plan) {
    const auto units = StoredTensor::units(entry.n_elements, page_bytes / kUnits, entry.map);
    pages.add(units.headers);
    pages.add(units.averages);
    add(pages, entry, units);
  }
  return pages.total();
}

}  // namespace

std::string why_unusable(const MapEncoding& map, int64_t n_elements) {
  const auto is_side = [](int64_t side, int64_t block) {
    return side > 0 && side <= kMaxElements && block > 0 && block <= std::min(side, kMaxMapBlock);
  };
  if (!is_side(map.height, map.block_height) || !is_side(map.width, map.block_width)) {
    return "the blocks of its maps are not 1 to 64 wide and high, and at most their size";
  }
  if (map.width > INT32_MAX || map.height > kMaxElements / map.width ||
      n_elements % map.n_elements() != 0) {
    return "its " + std::to_string(n_elements) + " elements are not whole maps";
  }
  return "";
}

void check_plan(const std::vector<StoreEntry>& plan) {
  for (const StoreEntry& entry : plan) {
    const auto refuse_entry = [&](const std::string& text) {
      refuse("tensor '" + entry.name + "' " + text + "; export the program again");
    };
    if (entry.n_elements < 0 || entry.n_elements > kMaxElements) {
      refuse_entry("has " + std::to_string(entry.n_elements) + " elements, not 0 to 2^33");
    }
    if (entry.bits < 1 || entry.bits > kMaxPlanes) {
      refuse_entry("has " + std::to_string(entry.bits) + " bits, not 1 to 8");
    }
    if (entry.min_bits < 1 || entry.min_bits > entry.bits) {
      refuse_entry("must keep " + std::to_string(entry.min_bits) + " of its " +
                   std::to_string(entry.bits) + " bits, not 1 to all of them");
    }
    const std::string reason = why_unusable(entry.map, entry.n_elements);
    if (entry.map.is_used() && !reason.empty()) refuse_entry("cannot be stored: " + reason);
    if (!(entry.sensitivity >= 0)) refuse_entry("has a sensitivity that is not 0 or more");
  }
}

void check_page_bytes(size_t page_bytes) {
  const size_t smallest = std::max<size_t>(4096, AddressRange::os_page_bytes());
  constexpr size_t kLargest = 1 << 20;
  const bool is_power_of_two = (page_bytes & (page_bytes - 1)) == 0;
  if (page_bytes < smallest || page_bytes > kLargest || !is_power_of_two) {
    refuse("a page of " + std::to_string(page_bytes) + " bytes is not a power of two from " +
           std::to_string(smallest) + " to " + std::to_string(kLargest));
  }
}

size_t floor_pages(const std::vector<StoreEntry>& plan, size_t page_bytes) {
  return count_pages(plan, page_bytes, [](PageCount& pages, auto& entry, auto& units) {
    pages.add(units.plane, entry.min_bits);
  });
}

size_t planned_pages(const std::vector<StoreEntry>& plan, size_t page_bytes) {
  return count_pages(plan, page_bytes, [](PageCount& pages, auto& entry, auto& units) {
    pages.add(units.plane, entry.bits);
  });
}

size_t most_pages(const std::vector<StoreEntry>& plan, size_t page_bytes) {
  return count_pages(plan, page_bytes, [](PageCount& pages, auto& entry, auto& units) {
    pages.add(units.plane, entry.bits);
    pages.add(units.exact);
  });
}

void fit_bits(const std::vector<StoreEntry>& plan, const std::vector<double>& sensitivities,
              size_t page_bytes, size_t n_pages, DropOrder& order, std::vector<int>& bits) {
  const auto units_of = [&](int id) {
    return StoredTensor::units(plan[id].n_elements, page_bytes / kUnits, plan[id].map);
  };
  const auto put_in_order = [&](int id) {
    const size_t plane_bytes = units_of(id).plane * (page_bytes / kUnits);
    if (bits[id] > plan[id].min_bits && plane_bytes > 0) {
      order.insert(id, DropOrder::loss_per_byte(sensitivities[id], bits[id], plane_bytes));
    }
  };
  PageCount pages;
  for (int id = 0; id < static_cast<int>(plan.size()); ++id) {
    bits[id] = plan[id].bits;
    pages.add(units_of(id).headers);
    pages.add(units_of(id).averages);
    pages.add(units_of(id).plane, bits[id]);
    put_in_order(id);
  }
  while (pages.total() > n_pages && !order.is_empty()) {
    const int id = order.cheapest();
    order.remove(id);
    pages.remove(units_of(id).plane);
    --bits[id];
    put_in_order(id);
  }
  for (int id = 0; id < static_cast<int>(plan.size()); ++id) order.remove(id);
}

std::vector<int> fit_bits(const std::vector<StoreEntry>& plan, size_t page_bytes, size_t n_pages) {
  std::vector<double> sensitivities;
  for (const StoreEntry& entry : plan) sensitivities.push_back(entry.sensitivity);
  std::vector<int> bits(plan.size());
  DropOrder order(plan.size());
  fit_bits(plan, sensitivities, page_bytes, n_pages, order, bits);
  return bits;
}

}  // namespace daf
