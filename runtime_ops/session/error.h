// The two error types of the session: what a user is told, and what a parser found wrong.
#pragma once

#include <stdexcept>
#include <string>

namespace daf {

// Exit codes shared by all commands (python/daf/errors.py has the same table).
enum class Exit {
  kUsage = 2,
  kProgram = 5,
  kData = 6,
  kWeights = 7,
  kOutput = 8,
  kDevice = 9,
};

// What reaches the host of a session. The message names the action, the object and the next step.
class DafError : public std::runtime_error {
 public:
  DafError(Exit exit, const std::string& message) : std::runtime_error(message), exit_(exit) {}
  Exit exit() const { return exit_; }

 private:
  Exit exit_;
};

// What a parser found wrong, without the file's name: whoever opened the file adds that, the
// action and the next step, and throws a DafError.
class FormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace daf
