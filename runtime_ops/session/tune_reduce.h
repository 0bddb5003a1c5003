// `daf tune`: measures every variant of reduction at the sizes that activations have, and keeps
// what it finds where runs look for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace daf {

// One of each size class of the selector, as far as activations go.
std::vector<int64_t> tuned_sizes();

// Adds to the table at `path`; on_size() is told each size that is done. Returns the key of the
// device in the table, or nothing where no GPU can be used. Throws DafError when the GPU fails or
// the file cannot be written.
std::string tune_reduce(const std::string& path, const std::vector<int64_t>& sizes,
                        bool tries_software, const std::function<void(int64_t)>& on_size);

}  // namespace daf
