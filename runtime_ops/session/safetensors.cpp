#include "runtime_ops/session/safetensors.h"

#include <algorithm>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/json.h"
#include "runtime_ops/session/json_fields.h"

namespace daf {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation

std::string read_header(const InputFile& file) {
  if (file.size_bytes() < kLengthBytes) {
    throw FormatError("it is not a safetensors file (" + format_bytes(file.size_bytes()) + ")");
  }
  uint8_t bytes[kLengthBytes];
  file.read(0, bytes, kLengthBytes);
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | bytes[i];
  if (length > kMaxHeaderBytes) throw FormatError("it is not a safetensors file");
  if (length > file.size_bytes() - kLengthBytes) {
    throw FormatError("it is truncated in its header (" + std::to_string(file.size_bytes()) +
                      " of at least " + std::to_string(kLengthBytes + length) + " bytes)");
  }
  std::string header(length, '\0');
  file.read(kLengthBytes, header.data(), header.size());
  return header;
}

Metadata parse_metadata(const JsonFields& fields, const Json::Object& members) {
  Metadata metadata;
  for (const JsonMember& member : members) metadata[member.key] = fields.string(member.key);
  return metadata;
}

// The entry with its offset still relative to the data.
SafetensorsEntry parse_entry(const std::string& name, const JsonFields& fields) {
  fields.refuse_unknown({"dtype", "shape", "data_offsets"});
  SafetensorsEntry entry;
  entry.spec.name = name;
  const std::string dtype = fields.string("dtype");
  const std::optional<DType> known = dtype_from_safetensors_name(dtype);
  if (!known) fields.fail("dtype", "'" + dtype + "' is not supported");
  entry.spec.dtype = *known;
  entry.spec.shape = fields.sizes("shape");
  const std::vector<int64_t> offsets = fields.sizes("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    fields.fail("data_offsets", "expected [begin, end]");
  }
  if (tensor_size_bytes(entry.spec.dtype, entry.spec.shape) != offsets[1] - offsets[0]) {
    fields.fail("data_offsets", "they do not fit " + entry.spec.type_and_shape());
  }
  entry.offset = static_cast<uint64_t>(offsets[0]);
  return entry;
}

void check_layout(const std::vector<SafetensorsEntry>& entries, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset != end) {
      throw FormatError("tensor '" + entry.spec.name + "' " +
                        (entry.offset < end ? "overlaps another" : "comes after a gap"));
    }
    end += static_cast<uint64_t>(entry.spec.size_bytes());
  }
  if (end > data_bytes) {
    throw FormatError("it is truncated (" + std::to_string(data_bytes) + " of " +
                      std::to_string(end) + " bytes of tensor data)");
  }
  if (end < data_bytes) throw FormatError("it has bytes after the last tensor");
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  const std::string text = read_header(file_);
  const uint64_t data_begin = kLengthBytes + text.size();
  const Json header = Json::parse(text);
  const JsonFields fields(header, "");
  for (const JsonMember& member : *header.object()) {
    const JsonFields member_fields = JsonFields(member.value, member.key);
    if (member.key == "__metadata__") {
      metadata_ = parse_metadata(member_fields, *member.value.object());
    } else {
      entries_.push_back(parse_entry(member.key, member_fields));
    }
  }
  // An empty tensor lies before the one that starts at the same place.
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.spec.size_bytes()) < std::pair(b.offset, b.spec.size_bytes());
  });
  check_layout(entries_, file_.size_bytes() - data_begin);
  for (size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].offset += data_begin;
    index_[entries_[i].spec.name] = i;
  }
}

const SafetensorsEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

void SafetensorsFile::read(const SafetensorsEntry& entry, uint64_t begin, void* buffer,
                           size_t size_bytes) const {
  file_.read(entry.offset + begin, buffer, size_bytes);
}

void SafetensorsFile::read(const SafetensorsEntry& entry, void* buffer) const {
  read(entry, 0, buffer, static_cast<size_t>(entry.spec.size_bytes()));
}

void write_safetensors(const std::string& path, std::vector<ConstTensorView> tensors,
                       const Metadata& metadata) {
  // Wide types first, and a header of a multiple of 8 bytes: every tensor is aligned.
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return size_of(a.spec.dtype) > size_of(b.spec.dtype);
  });
  Json::Object header;
  if (!metadata.empty()) {
    Json::Object strings;
    for (const auto& [key, value] : metadata) strings.push_back({key, value});
    header.push_back({"__metadata__", std::move(strings)});
  }
  int64_t offset = 0;
  for (const ConstTensorView& tensor : tensors) {
    const int64_t end = offset + tensor.spec.size_bytes();
    Json::Array shape(tensor.spec.shape.begin(), tensor.spec.shape.end());
    header.push_back({tensor.spec.name, Json::Object{{"dtype", safetensors_name(tensor.spec.dtype)},
                                                     {"shape", std::move(shape)},
                                                     {"data_offsets", Json::Array{offset, end}}}});
    offset = end;
  }
  std::string text = Json(std::move(header)).dump();
  text.append((8 - text.size() % 8) % 8, ' ');

  AtomicFile file(path);
  uint8_t length[kLengthBytes];
  for (size_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<uint8_t>(text.size() >> (8 * i));
  file.write(length, kLengthBytes);
  file.write(text.data(), text.size());
  for (const ConstTensorView& tensor : tensors) {
    file.write(tensor.data, static_cast<size_t>(tensor.spec.size_bytes()));
  }
  file.commit();
}

}  // namespace daf
