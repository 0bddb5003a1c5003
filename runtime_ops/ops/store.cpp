// Into the activation store and out of it.
#include "runtime_ops/ops/current_store.h"
#include "runtime_ops/ops/operators.h"
#include "runtime_ops/ops/stored.h"

namespace daf {
namespace {

thread_local ActivationStore* current = nullptr;
thread_local std::vector<double>* importance_of_current = nullptr;

}  // namespace

ActivationStore* current_store() { return current; }
std::vector<double>* current_importance() { return importance_of_current; }

UseStore::UseStore(ActivationStore* store, std::vector<double>* importance)
    : previous_(current), previous_importance_(importance_of_current) {
  current = store;
  importance_of_current = importance;
}
UseStore::~UseStore() {
  current = previous_;
  importance_of_current = previous_importance_;
}

}  // namespace daf

namespace daf::ops {

void stash(Arguments& args) {
  const Floats x = args.floats("x");
  const int64_t entry = args.integer("entry");
  ActivationStore* store = current_store();
  args.require(store != nullptr && entry >= 0 && entry < static_cast<int64_t>(store->plan().size()),
               "the program has no stored tensor ", entry);
  const int id = static_cast<int>(entry);
  args.require(store->plan()[id].n_elements == x.n_elements(), "stored tensor ", entry, " has ",
               store->plan()[id].n_elements, " elements, x has shape ", x.shape);
  args.output<uint8_t>("out", {1}).data[0] = 1;
  store->stash(id, x.data);
}

void fetch(Arguments& args) {
  StoredValue value(args);
  const Array<float> y = args.output("out", value.shape());
  value.read_whole(y.data);
  value.weigh([&] { return relative(static_cast<double>(y.n_elements()), square_norm(y)); });
  value.release();
}

void masked_gradient(Arguments& args) {
  const Floats grad = args.floats("grad");
  const Array<const int32_t> mask = args.tensor<int32_t>("mask");
  const float slope = static_cast<float>(args.number("slope"));
  args.require_shape(mask, {(grad.n_elements() + 31) / 32});
  const Array<float> grad_x = args.output("out", grad.shape);
  apply_mask(grad.n_elements(), reinterpret_cast<const uint32_t*>(mask.data), 0, slope, grad.data,
             grad_x.data);
}

}  // namespace daf::ops
