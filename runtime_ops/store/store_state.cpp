#include "runtime_ops/store/store_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "runtime_ops/gpu/hybrid_reducer.h"
#include "runtime_ops/store/plan.h"

namespace daf {
namespace {

// Addresses are taken once. A budget beyond all groups exact is of no use.
size_t pages_to_reserve(const std::vector<StoreEntry>& plan, const StoreOptions& options) {
  const size_t page = options.page_bytes;
  const size_t planned = planned_pages(plan, page);
  const size_t most = std::max(planned, std::min(most_pages(plan, page), kMaxPages));
  return std::clamp(options.budget_bytes / page, planned, most);
}

// NaN or infinite where a gradient is: then nobody knows what is safe to drop.
double usable(double sensitivity) {
  return std::isfinite(sensitivity) ? std::max(sensitivity, 0.0)
                                    : std::numeric_limits<double>::max();
}

std::vector<MapLayout> layouts_of(const std::vector<StoreEntry>& plan) {
  std::vector<MapLayout> layouts;
  for (const StoreEntry& entry : plan) layouts.emplace_back(entry.map);
  return layouts;
}

}  // namespace

ActivationStore::State::State(const std::vector<StoreEntry>& plan, const StoreOptions& options)
    : plan_(plan),
      options_(options),
      pool_(options.page_bytes, pages_to_reserve(plan, options), options.grow_step_bytes),
      floor_pages_(floor_pages(plan, options.page_bytes)),
      layouts_(layouts_of(plan)),
      items_(plan.size()),
      order_(plan.size()),
      budget_bytes_(options.budget_bytes),
      moved_([this](uint32_t from, uint32_t to, uint32_t n_units) {
        for (Item& item : items_) {
          item.tensor.for_each_piece([&](Piece& piece) { piece.relocate(from, to, n_units); });
        }
      }) {
  pool_.set_budget(std::min(budget_bytes_ / options.page_bytes, pool_.n_pages()));
  for (size_t id = 0; id < items_.size(); ++id) {
    if (plan[id].map.is_used()) items_[id].tensor.maps = &layouts_[id];
  }
  make_places();
  for (const StoreEntry& entry : plan) {
    sensitivity_.push_back(usable(entry.sensitivity));
    start_bits_.push_back(entry.bits);
  }
  next_sensitivity_ = sensitivity_;
}

void ActivationStore::State::make_places() {
  const auto for_each_piece = [&](auto body) {
    for (size_t id = 0; id < items_.size(); ++id) {
      StoredTensor& tensor = items_[id].tensor;
      const auto units =
          StoredTensor::units(plan_[id].n_elements, pool_.unit_bytes(), plan_[id].map);
      body(tensor.headers, units.headers);
      body(tensor.averages, units.averages);
      body(tensor.exact, units.exact);
      for (int p = 0; p < plan_[id].bits; ++p) body(tensor.planes[p], units.plane);
    }
  };
  size_t n_places = 0;
  for_each_piece([&](Piece&, uint32_t units) { n_places += Piece::max_blocks(units); });
  places_.resize(n_places);
  uint32_t* next = places_.data();
  for_each_piece([&](Piece& piece, uint32_t units) {
    piece.blocks = next;
    next += Piece::max_blocks(units);
  });
}

// ---- what is called --------------------------------------------------------------------------

void ActivationStore::State::begin_step(uint64_t seed, uint64_t step) {
  for (size_t id = 0; id < items_.size(); ++id) {
    if (items_[id].is_stored) {
      fail(static_cast<int>(id), "begin a step with", "it was not released in the last one");
    }
  }
  seed_ = seed, step_ = step;
  if (!options_.keep_bits) {
    for (size_t id = 0; id < items_.size(); ++id) start_bits_[id] = plan_[id].bits;
  } else if (starts_over_ || sensitivity_ != next_sensitivity_) {
    size_t n_pages = pool_.budget_pages();
    if (options_.fit_bytes > 0) {
      n_pages = std::min(n_pages, options_.fit_bytes / options_.page_bytes);
    }
    fit_bits(plan_, next_sensitivity_, options_.page_bytes, n_pages, order_, start_bits_);
  }
  sensitivity_ = next_sensitivity_;
  starts_over_ = false;
}

void ActivationStore::State::stash(int id, const float* x, int64_t n_elements) {
  Item& item = item_of(id, "store");
  if (item.is_stored) fail(id, "store", "it is stored already");
  if (n_elements < 0 || n_elements > plan_[id].n_elements) {
    fail(id, "store",
         "it has " + std::to_string(n_elements) + " values, in the plan " +
             std::to_string(plan_[id].n_elements));
  }
  if (plan_[id].map.is_used() && n_elements % plan_[id].map.n_elements() != 0) {
    fail(id, "store", "its " + std::to_string(n_elements) + " values are not whole maps");
  }
  item.tensor.n_elements = n_elements;
  int64_t n_marked = 0;
  const bool is_stored = store(id, x, &n_marked);
  if (n_marked > 0) starts_over_ = true;  // what they took is free again in the next step
  if (!is_stored) {
    drop_all(id);
    throw std::runtime_error(
        "cannot store activation '" + plan_[id].name + "': with every tensor at its fewest bits, " +
        std::to_string(n_exact_groups() + n_marked) +
        " groups of 256 values (or maps) that are kept in float32, because not all of them are " +
        "finite, do not fit in the budget of " + std::to_string(budget_bytes_) +
        " bytes; lower the learning rate, or raise the budget");
  }
  report(StoreEvent::Kind::kStash, id);
}

void ActivationStore::State::begin_fetch(int id) {
  if (!item_of(id, "read").is_stored) fail(id, "read", "it is not stored");
  report(StoreEvent::Kind::kFetch, id);
}

void ActivationStore::State::read(int id, int64_t first, int64_t count, float* out) const {
  const Item& item = item_of(id, "read");
  if (!item.is_stored) fail(id, "read", "it is not stored");
  if (first < 0 || count < 0 || first > item.tensor.n_elements - count) {
    fail(id, "read",
         std::to_string(count) + " values from " + std::to_string(first) +
             " on are not among its " + std::to_string(item.tensor.n_elements));
  }
  if (count == 0) return;
  const StoredTensor& tensor = item.tensor;
  const auto decode = [&] { tensor.decode(pool_, first, count, out); };
  if (!is_for_device(tensor)) return decode();
  reducer_->decode(
      count, out, [&] { return tensor.pieces(pool_, first, count); },
      [&] { tensor.finish_decode(pool_, first, count, out); }, decode);
}

double ActivationStore::State::mean_square_range(int id) const {
  const Item& item = item_of(id, "look at");
  if (!item.is_stored) fail(id, "look at", "it is not stored");
  return item.tensor.mean_square_range(pool_);
}

void ActivationStore::State::release(int id) {
  if (!item_of(id, "release").is_stored) fail(id, "release", "it is not stored");
  drop_all(id);
  report(StoreEvent::Kind::kRelease, id);
}

void ActivationStore::State::release_all() {
  for (size_t id = 0; id < items_.size(); ++id) {
    if (items_[id].is_stored) release(static_cast<int>(id));
  }
}

// What a GPU shall use where it lies must stay there: it is committed at once, and pages are given
// back only after the GPU has let go of them. What comes on top of the plan (groups that are kept
// exact) is not shared.
void ActivationStore::State::set_reducer(HybridReducer* reducer) {
  unshare_pool();
  reducer_ = reducer;
  if (reducer == nullptr || !reducer->has_gpu()) return;
  size_t wanted = planned_pages(plan_, options_.page_bytes);
  if (options_.fit_bytes > 0) wanted = std::min(wanted, options_.fit_bytes / options_.page_bytes);
  wanted = std::min(wanted, pool_.budget_pages());
  if (pool_.committed_pages() > 0 ||
      !reducer->share(pool_.address(0), wanted * options_.page_bytes)) {
    return;
  }
  shared_pages_ = wanted;
  pool_.commit(wanted);
}

void ActivationStore::State::unshare_pool() {
  if (shared_pages_ > 0) reducer_->unshare(pool_.address(0));
  shared_pages_ = 0;
}

size_t ActivationStore::State::trim(size_t budget_bytes) {
  size_t pages = std::min(budget_bytes / options_.page_bytes, pool_.n_pages());
  pages = std::max(pages, floor_pages_);
  while (pool_.used_pages() > pages) {
    if (!pool_.make_free(PagePool::kPageOrder, moved_) && !drop_cheapest()) break;
  }
  pages = std::max(pages, pool_.used_pages());
  budget_bytes = std::max(budget_bytes, pages * options_.page_bytes);
  starts_over_ |= budget_bytes != budget_bytes_;
  budget_bytes_ = budget_bytes;
  if (pages < pool_.committed_pages()) unshare_pool();
  pool_.set_budget(pages);
  ++n_trims_;
  report(StoreEvent::Kind::kTrim, -1);
  return budget_bytes_;
}

void ActivationStore::State::set_sensitivity(int id, double sensitivity) {
  item_of(id, "rate");
  next_sensitivity_[id] = usable(sensitivity);
}

int ActivationStore::State::bits(int id) const {
  const Item& item = item_of(id, "look at");
  return item.is_stored ? item.tensor.bits : start_bits_[id];
}

ActivationStore::State::Item& ActivationStore::State::item_of(int id, const char* action) {
  if (id >= 0 && static_cast<size_t>(id) < items_.size()) return items_[id];
  throw std::logic_error(std::string("cannot ") + action + " activation " + std::to_string(id) +
                         ": the plan has " + std::to_string(items_.size()));
}

void ActivationStore::State::fail(int id, const char* action, const std::string& reason) const {
  throw std::logic_error(std::string("cannot ") + action + " activation '" + plan_[id].name +
                         "': " + reason);
}

// Devices know groups as they are.
bool ActivationStore::State::is_for_device(const StoredTensor& tensor) const {
  const PlaneForm form = tensor.coding.form;
  return reducer_ != nullptr && tensor.maps == nullptr &&
         (form == PlaneForm::kPlain || form == PlaneForm::kDithered);
}

// ---- room ------------------------------------------------------------------------------------

// False when it does not fit. n_marked: groups that are to be kept exact.
bool ActivationStore::State::store(int id, const float* x, int64_t* n_marked) {
  Item& item = items_[id];
  StoredTensor& tensor = item.tensor;
  const auto units = tensor.units(pool_.unit_bytes());
  const auto always = [] { return true; };
  tensor.bits = start_bits_[id];
  item.plane_units = units.plane;
  item.is_stored = true;
  put_in_order(id);  // its own planes may be the cheapest
  if (!allocate(tensor.headers, units.headers, always)) return false;
  if (!allocate(tensor.averages, units.averages, always)) return false;
  // Room is made before the planes are: one that goes is not even written, and rounding to those
  // that stay is unbiased.
  for (int p = 0; p < tensor.bits; ++p) {
    if (!allocate(tensor.planes[p], units.plane, [&] { return p < tensor.bits; })) return false;
  }
  const PlaneForm form = plan_[id].are_probabilities
                             ? PlaneForm::kRoots
                             : bitplane_choose_form(tensor.bits, tensor.n_elements, x);
  tensor.coding = {noise_key({seed_, step_, static_cast<uint32_t>(id)}), 0, form};
  const auto encode = [&](const OrderedRange* ranges) { return tensor.encode(pool_, x, ranges); };
  const auto encode_on = [&](const OrderedRange* ranges, const StoredTensor::DevicePack& pack) {
    return tensor.encode_on(pool_, x, ranges, pack);
  };
  *n_marked = is_for_device(tensor) ? reducer_->encode(tensor.n_elements, x, encode, encode_on)
                                    : encode(nullptr);
  if (*n_marked == 0) return true;
  const size_t exact_units =
      (tensor.exact_bytes(*n_marked) + pool_.unit_bytes() - 1) / pool_.unit_bytes();
  if (!allocate(tensor.exact, static_cast<uint32_t>(exact_units), always)) return false;
  tensor.n_exact = *n_marked;
  tensor.keep_exact(pool_, x);
  return true;
}

// Makes room by dropping planes, as long as it is wanted. False when there is nothing to drop.
template <class IsWanted>
bool ActivationStore::State::allocate(Piece& piece, uint32_t n_units, IsWanted is_wanted) {
  while (is_wanted()) {
    const int64_t n_grows = pool_.n_grows();
    const bool is_there = piece.allocate(pool_, n_units, moved_);
    if (pool_.n_grows() != n_grows) report(StoreEvent::Kind::kGrow, -1);
    if (is_there) return true;
    if (!drop_cheapest()) return false;
  }
  return true;
}

bool ActivationStore::State::drop_cheapest() {
  if (order_.is_empty()) return false;
  const int id = order_.cheapest();
  StoredTensor& tensor = items_[id].tensor;
  order_.remove(id);
  ++drops_by_bit_[tensor.bits];
  --tensor.bits;
  tensor.planes[tensor.bits].free(pool_);  // nothing, where the tensor is just being stored
  put_in_order(id);
  report(StoreEvent::Kind::kDrop, id);
  return true;
}

void ActivationStore::State::drop_all(int id) {
  Item& item = items_[id];
  order_.remove(id);
  item.tensor.for_each_piece([&](Piece& piece) { piece.free(pool_); });
  item.tensor.n_exact = 0;
  start_bits_[id] = item.tensor.bits;
  item.is_stored = false;
}

void ActivationStore::State::put_in_order(int id) {
  const Item& item = items_[id];
  if (item.tensor.bits <= plan_[id].min_bits || item.plane_units == 0) return;
  order_.insert(id, loss_per_byte(id, item.tensor.bits));
}

double ActivationStore::State::loss_per_byte(int id, int bits) const {
  return DropOrder::loss_per_byte(sensitivity_[id], bits,
                                  items_[id].plane_units * pool_.unit_bytes());
}

// ---- what is told ------------------------------------------------------------------------------

void ActivationStore::State::report(StoreEvent::Kind kind, int id) {
  peak_used_bytes_ = std::max(peak_used_bytes_, used_bytes());
  if (!observer) return;
  StoreEvent event = {};
  event.kind = kind;
  event.tensor = id;
  event.used_bytes = used_bytes();
  if (id >= 0) {
    const StoredTensor& tensor = items_[id].tensor;
    event.bits = tensor.bits;
    event.raw_bytes = static_cast<size_t>(tensor.n_elements) * sizeof(float);
    event.stored_bytes = tensor.stored_bytes();
  } else {
    event.raw_bytes = budget_bytes_;
    event.stored_bytes = pool_.committed_pages() * options_.page_bytes;
  }
  observer(event);
}

int64_t ActivationStore::State::n_exact_groups() const {
  int64_t n = 0;
  for (const Item& item : items_) n += item.tensor.n_exact;
  return n;
}

StoreStats ActivationStore::State::stats() const {
  const size_t page = options_.page_bytes;
  StoreStats s = {};
  s.budget_bytes = budget_bytes_;
  s.used_bytes = used_bytes();
  s.committed_bytes = pool_.committed_pages() * page;
  s.reserved_bytes = pool_.n_pages() * page;
  s.peak_used_bytes = peak_used_bytes_;
  for (const Item& item : items_) {
    if (!item.is_stored) continue;
    s.stored_bytes += item.tensor.stored_bytes();
    s.raw_bytes += static_cast<size_t>(item.tensor.n_elements) * sizeof(float);
  }
  s.waste_bytes = s.used_bytes - s.stored_bytes;
  s.largest_free_bytes = (pool_.budget_pages() - pool_.used_pages()) * page +
                         pool_.shared_free_units() * pool_.unit_bytes();
  s.bookkeeping_bytes = sizeof(*this) + pool_.bookkeeping_bytes() + order_.bookkeeping_bytes() +
                        places_.capacity() * sizeof(uint32_t) + items_.capacity() * sizeof(Item);
  for (const MapLayout& layout : layouts_) s.bookkeeping_bytes += layout.bookkeeping_bytes();
  s.exact_groups = n_exact_groups();
  s.n_grows = pool_.n_grows();
  s.n_trims = n_trims_;
  s.n_moves = pool_.n_moves();
  s.drops_by_bit = drops_by_bit_;
  return s;
}

bool ActivationStore::State::is_valid(std::string* why) const {
  const auto fail = [why](const std::string& text) {
    if (why != nullptr) *why = text;
    return false;
  };
  if (!pool_.is_valid(why)) return false;
  if (used_bytes() > budget_bytes_) return fail("more is used than the budget");
  std::vector<bool> is_taken(pool_.n_pages() * PagePool::kUnitsPerPage);
  size_t n_taken = 0, n_in_order = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    const int id = static_cast<int>(i);
    const Item& item = items_[i];
    const StoredTensor& tensor = item.tensor;
    const std::string name = "'" + plan_[i].name + "' ";
    const auto units = tensor.units(pool_.unit_bytes());
    bool is_right = true;
    tensor.for_each_piece([&](const Piece& piece) {
      piece.for_each_block([&](uint32_t unit, int order) {
        is_right &= pool_.is_used(unit, order);
        for (uint32_t u = unit; u < unit + (1u << order); ++u, ++n_taken) {
          is_right &= !is_taken[u];
          is_taken[u] = true;
        }
      });
    });
    if (!is_right) return fail(name + "has a block that is not its own");
    const auto is_as_large = [&](const Piece& piece, bool is_there, uint32_t n_units) {
      return piece.n_units == (is_there ? n_units : 0);
    };
    is_right = is_as_large(tensor.headers, item.is_stored, units.headers) &&
               is_as_large(tensor.averages, item.is_stored, units.averages);
    for (int p = 0; p < kMaxPlanes; ++p) {
      is_right &= is_as_large(tensor.planes[p], item.is_stored && p < tensor.bits, units.plane);
    }
    if (!is_right) return fail(name + "has too many or too few parts");
    if (tensor.exact.n_units * pool_.unit_bytes() < tensor.exact_bytes(tensor.n_exact)) {
      return fail(name + "has no room for what is exact");
    }
    const int bits = item.is_stored ? tensor.bits : start_bits_[i];
    if (bits < plan_[i].min_bits || bits > plan_[i].bits) return fail(name + "has wrong bits");
    const bool may_drop = item.is_stored && bits > plan_[i].min_bits && item.plane_units > 0;
    if (order_.contains(id) != may_drop) return fail(name + "is wrongly in the order or not");
    n_in_order += may_drop;
    if (may_drop && order_.loss_per_byte(id) != loss_per_byte(id, bits)) {
      return fail(name + "is at the wrong place");
    }
  }
  if (n_in_order != order_.size()) return fail("the order has a tensor too many");
  if (n_taken != pool_.used_units()) return fail("blocks are used that no tensor has");
  return true;
}

}  // namespace daf
