// The store that the operators of the running step use.
#pragma once

#include <vector>

#include "runtime_ops/store/store.h"

namespace daf {

// Of the step that runs on this thread; null outside of one.
ActivationStore* current_store();

// Where the readers of the running step add how much each stored tensor matters; null in most
// steps, which do not measure it. See StoredValue::weigh().
std::vector<double>* current_importance();

// Makes a store (or none) the current one of this thread while it lives.
class UseStore {
 public:
  explicit UseStore(ActivationStore* store, std::vector<double>* importance = nullptr);
  ~UseStore();
  UseStore(const UseStore&) = delete;
  UseStore& operator=(const UseStore&) = delete;

 private:
  ActivationStore* previous_;
  std::vector<double>* previous_importance_;
};

}  // namespace daf
