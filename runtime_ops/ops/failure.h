// The text of the last operator failure, from the adapter that saw it to the session that says it:
// ExecuTorch itself carries only an error code.
#pragma once

#include <string>
#include <utility>

namespace daf {

namespace internal {
inline thread_local std::string failure;
}

inline void report_failure(std::string message) { internal::failure = std::move(message); }

// Empty when no operator has failed since the last call.
inline std::string take_failure() { return std::exchange(internal::failure, std::string()); }

}  // namespace daf
