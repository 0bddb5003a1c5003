#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>

#include "runtime_ops/session/safetensors.h"
#include "session_testing.h"

namespace daf {
namespace {

// A file with this header and data, as bytes.
std::string file_bytes(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i));
  return bytes + header + data;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string open_error(const std::string& bytes) {
    write_file(path_, bytes);
    return error_of([&] { SafetensorsFile file(path_); });
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("t.safetensors");
};

TEST_F(SafetensorsTest, ReadsLiteralBytes) {
  write_file(path_, file_bytes(R"({"__metadata__":{"k":"v"},)"
                               R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},)"
                               R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                               R"("empty":{"dtype":"I64","shape":[0],"data_offsets":[8,8]}} )",
                               std::string("\0\0\x80\x3f\0\0\0\x40\1\2\3", 11)));
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata().at("k"), "v");
  EXPECT_EQ(file.entries().size(), 3u);
  const SafetensorsEntry* a = file.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->spec.type_and_shape(), "float32[1, 2]");
  float values[2];
  file.read(*a, values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 2.0f);
  uint8_t tail[2];
  file.read(*file.find("b"), 1, tail, 2);
  EXPECT_EQ(tail[0], 2);
  EXPECT_EQ(tail[1], 3);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(SafetensorsTest, WritesLiteralBytes) {
  const uint8_t bytes[] = {7, 8, 9};
  const float values[] = {1.0f, 2.0f};
  write_safetensors(path_,
                    {{{"b", DType::kUint8, {3}}, bytes}, {{"a", DType::kFloat32, {2}}, values}},
                    {{"k", "v"}});
  // Wide types first; the header is padded to a multiple of 8.
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(path_),
            file_bytes(header + padding, std::string("\0\0\x80\x3f\0\0\0\x40\7\10\11", 11)));
  EXPECT_EQ(folder_.list(), "t.safetensors ");
}

TEST_F(SafetensorsTest, ReadsWhatItWrites) {
  const int64_t scalar = -5;
  write_safetensors(path_, {{{"s\xC3\xA9", DType::kInt64, {}}, &scalar}}, {});
  const SafetensorsFile file(path_);
  ASSERT_NE(file.find("s\xC3\xA9"), nullptr);
  int64_t value = 0;
  file.read(*file.find("s\xC3\xA9"), &value);
  EXPECT_EQ(value, -5);
  EXPECT_TRUE(file.metadata().empty());
}

TEST_F(SafetensorsTest, RefusesBadHeaders) {
  const auto entry = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  const struct {
    std::string header, data, error;
  } cases[] = {
      {entry(R"("dtype":"F8","shape":[1],"data_offsets":[0,1])"), "x",
       "a.dtype: 'F8' is not supported"},
      {entry(R"("dtype":"U8","shape":[2],"data_offsets":[0,1])"), "x",
       "a.data_offsets: they do not fit uint8[2]"},
      {entry(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), "x",
       "a.shape: expected sizes >= 0, found -1"},
      {entry(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), "x",
       "a.data_offsets: expected [begin, end]"},
      {entry(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), "x",
       "a.data_offsets: expected [begin, end]"},
      {entry(R"("dtype":"U8","shape":[1])"), "x", "a.data_offsets: missing"},
      {entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0)"), "x", "a.x: unknown key"},
      {entry(R"("dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,1])"), "x",
       "a.data_offsets: they do not fit float64[4611686018427387904, 4]"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "xyz", "tensor 'b' overlaps another"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy",
       "tensor 'a' comes after a gap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xyz",
       "it has bytes after the last tensor"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "xyz",
       "it is truncated (3 of 4 bytes of tensor data)"},
      {R"({"__metadata__":{"k":1}})", "", "__metadata__.k: expected a string, found an integer"},
      {R"({"a":3})", "", "a: expected an object, found an integer"},
      {R"([])", "", "expected an object, found an array"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(open_error(file_bytes(c.header, c.data)), c.error) << c.header;
  EXPECT_EQ(open_error(std::string(8, '\xff')), "it is not a safetensors file");
  EXPECT_EQ(error_of([&] { SafetensorsFile file(folder_.file("none")); }), "no such file");
  EXPECT_EQ(error_of([&] { SafetensorsFile file(folder_.file("")); }), "it is not a regular file");
}

TEST_F(SafetensorsTest, SurvivesDamage) {
  const float values[] = {1, 2, 3};
  write_safetensors(path_, {{{"w", DType::kFloat32, {3}}, values}}, {{"step", "3"}});
  const std::string bytes = read_file(path_);
  expect_damage_is_refused<FormatError>(bytes, [&](const std::string& damaged) {
    write_file(path_, damaged);
    const SafetensorsFile file(path_);
    for (const SafetensorsEntry& entry : file.entries()) {
      std::string buffer(static_cast<size_t>(entry.spec.size_bytes()), '\0');
      file.read(entry, buffer.data());
    }
  });
}

TEST_F(SafetensorsTest, SaysWhyItCannotWrite) {
  const float value = 1;
  const std::vector<ConstTensorView> tensors = {{{"w", DType::kFloat32, {}}, &value}};
  expect_daf_error(Exit::kOutput, "its folder does not exist; create it first",
                   [&] { write_safetensors(folder_.file("none/w"), tensors, {}); });
  expect_daf_error(Exit::kOutput, "it is a folder", [&] { check_can_write(folder_.file("")); });
}

// A limit on the size of files stands in for a full device: write(2) fails in the middle.
TEST_F(SafetensorsTest, KeepsTheOldFileWhenTheNewOneCannotBeFinished) {
  write_file(path_, "old");
  const std::vector<uint8_t> data(1 << 16);
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_daf_error(Exit::kOutput, "cannot write " + path_ + ": File too large", [&] {
    write_safetensors(path_, {{{"w", DType::kUint8, {1 << 16}}, data.data()}}, {});
  });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(path_), "old");
  EXPECT_EQ(folder_.list(), "t.safetensors ");
}

}  // namespace
}  // namespace daf
