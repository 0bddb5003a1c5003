#include "runtime_ops/store/store.h"

#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <utility>

#include "runtime_ops/store/plan.h"
#include "runtime_ops/store/store_state.h"

namespace daf {
namespace {

using Alone = std::unique_lock<FairSharedMutex>;
using Together = std::shared_lock<FairSharedMutex>;

}  // namespace

const char* name_of(StoreEvent::Kind kind) {
  constexpr const char* kNames[] = {"stash", "fetch", "drop", "grow", "trim", "release"};
  return kNames[static_cast<int>(kind)];
}

size_t ActivationStore::floor_bytes(const std::vector<StoreEntry>& plan, size_t page_bytes) {
  check_plan(plan);
  return floor_pages(plan, page_bytes) * page_bytes;
}

size_t ActivationStore::planned_bytes(const std::vector<StoreEntry>& plan, size_t page_bytes) {
  check_plan(plan);
  return planned_pages(plan, page_bytes) * page_bytes;
}

ActivationStore::ActivationStore(std::vector<StoreEntry> plan, const StoreOptions& options)
    : plan_(std::move(plan)) {
  check_page_bytes(options.page_bytes);
  const size_t smallest = floor_bytes(plan_, options.page_bytes);
  if (options.budget_bytes < smallest) {
    throw std::invalid_argument(
        "cannot make the activation store: a budget of " + std::to_string(options.budget_bytes) +
        " bytes is too small for " + std::to_string(plan_.size()) +
        " tensors at their fewest bits; the smallest that would do is " + std::to_string(smallest));
  }
  if (planned_pages(plan_, options.page_bytes) > kMaxPages) {
    throw std::invalid_argument(
        "cannot make the activation store: the plan has more than 2^26 pages");
  }
  state_ = std::make_unique<State>(plan_, options);
}

ActivationStore::~ActivationStore() = default;

void ActivationStore::begin_step(uint64_t seed, uint64_t step) {
  const Alone lock(state_->mutex);
  state_->begin_step(seed, step);
}

void ActivationStore::stash(int id, const float* x) { stash(id, x, plan_.at(id).n_elements); }

void ActivationStore::stash(int id, const float* x, int64_t n_elements) {
  const Alone lock(state_->mutex);
  state_->stash(id, x, n_elements);
}

void ActivationStore::begin_fetch(int id) {
  const Alone lock(state_->mutex);
  state_->begin_fetch(id);
}

void ActivationStore::read(int id, int64_t first, int64_t count, float* out) const {
  const Together lock(state_->mutex);
  state_->read(id, first, count, out);
}

double ActivationStore::mean_square_range(int id) const {
  const Together lock(state_->mutex);
  return state_->mean_square_range(id);
}

void ActivationStore::release(int id) {
  const Alone lock(state_->mutex);
  state_->release(id);
}

void ActivationStore::release_all() {
  const Alone lock(state_->mutex);
  state_->release_all();
}

size_t ActivationStore::trim(size_t budget_bytes) {
  const Alone lock(state_->mutex);
  return state_->trim(budget_bytes);
}

void ActivationStore::set_sensitivity(int id, double sensitivity) {
  const Alone lock(state_->mutex);
  state_->set_sensitivity(id, sensitivity);
}

void ActivationStore::set_reducer(HybridReducer* reducer) {
  const Alone lock(state_->mutex);
  state_->set_reducer(reducer);
}

bool ActivationStore::shares_pool() const {
  const Together lock(state_->mutex);
  return state_->shares_pool();
}

int ActivationStore::bits(int id) const {
  const Together lock(state_->mutex);
  return state_->bits(id);
}

StoreStats ActivationStore::stats() const {
  const Together lock(state_->mutex);
  return state_->stats();
}

bool ActivationStore::is_valid(std::string* why) const {
  const Together lock(state_->mutex);
  return state_->is_valid(why);
}

void ActivationStore::set_observer(std::function<void(const StoreEvent&)> observer) {
  const Alone lock(state_->mutex);
  state_->observer = std::move(observer);
}

}  // namespace daf
