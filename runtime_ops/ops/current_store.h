// The store that the operators of the running step use.
#pragma once

#include "runtime_ops/store/store.h"

namespace daf {

// Of the step that runs on this thread; null outside of one.
ActivationStore* current_store();

// Makes a store (or none) the current one of this thread while it lives.
class UseStore {
 public:
  explicit UseStore(ActivationStore* store);
  ~UseStore();
  UseStore(const UseStore&) = delete;
  UseStore& operator=(const UseStore&) = delete;

 private:
  ActivationStore* previous_;
};

}  // namespace daf
