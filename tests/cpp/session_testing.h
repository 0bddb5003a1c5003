// What the tests of the session share: a folder that goes away, errors as text, damaged inputs.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime_ops/session/error.h"

namespace daf {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "daf-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  // The names of its files, sorted, with a space after each.
  std::string list() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) text += name + " ";
    return text;
  }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);  // ext4 writes a truncated file to the disk at once: slow
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// The message of what `call` throws; empty when it throws nothing.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

template <class Call>
void expect_daf_error(Exit exit, const std::string& part, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error, expected: " << part;
  } catch (const DafError& error) {
    EXPECT_EQ(error.exit(), exit) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// Every proper prefix must be refused with an Error, and no single flipped bit may do anything but
// be accepted or refused.
template <class Error, class Parse>
void expect_damage_is_refused(const std::string& bytes, const Parse& parse) {
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THROW(parse(bytes.substr(0, n)), Error) << "the first " << n << " bytes";
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      parse(flipped);
    } catch (const Error&) {
    }
  }
}

}  // namespace daf
