#include "runtime_ops/session/reduce_table.h"

#include <filesystem>
#include <utility>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/file.h"
#include "runtime_ops/session/json_fields.h"

namespace daf {
namespace {

constexpr const char* kFormat = "daf-reduce-table";
constexpr int64_t kSchema = 1;
constexpr uint64_t kMaxBytes = 4 << 20;

// The devices of a file that can be read; otherwise none.
Json::Object load_devices(const std::string& path) {
  try {
    const Json document = Json::parse(read_text_file(path, kMaxBytes));
    const JsonFields fields(document, "");
    if (fields.string("format") != kFormat || fields.integer("schema") != kSchema) return {};
    fields.object("devices");
    return *fields.get("devices").object();
  } catch (const FormatError&) {
    return {};
  }
}

Selector::Entry parse_entry(const JsonFields& fields) {
  Selector::Entry entry = {};
  const std::string name = fields.string("op");
  bool is_known = false;
  for (const ReduceOp op : kReduceOps) {
    if (name != name_of(op)) continue;
    entry.op = op;
    is_known = true;
  }
  if (!is_known) fields.fail("op", "not known");
  entry.size = fields.size("size");
  const JsonFields times = fields.object("ns");
  for (const JsonMember& member : *fields.get("ns").object()) {
    entry.timings.push_back({member.key, times.number(member.key)});
  }
  return entry;
}

Json to_json(const Selector::Entry& entry) {
  Json::Object times;
  for (const Selector::Timing& timing : entry.timings) {
    times.push_back({timing.variant, static_cast<int64_t>(timing.ns)});
  }
  return Json::Object{{"op", name_of(entry.op)}, {"size", entry.size}, {"ns", times}};
}

}  // namespace

std::vector<Selector::Entry> load_reduce_table(const std::string& path, const std::string& device) {
  std::vector<Selector::Entry> table;
  try {
    const Json devices = load_devices(path);
    if (devices.find(device) == nullptr) return {};
    for (const JsonFields& fields : JsonFields(devices, "devices").objects(device)) {
      table.push_back(parse_entry(fields));
    }
  } catch (const FormatError&) {
    return {};
  }
  return table;
}

bool save_reduce_table(const std::string& path, const std::string& device,
                       const std::vector<Selector::Entry>& table) {
  Json::Object devices;
  for (JsonMember& member : load_devices(path)) {
    if (member.key != device) devices.push_back(std::move(member));
  }
  Json::Array entries;
  for (const Selector::Entry& entry : table) entries.push_back(to_json(entry));
  devices.push_back({device, std::move(entries)});
  const std::string text =
      Json(Json::Object{{"format", kFormat}, {"schema", kSchema}, {"devices", std::move(devices)}})
          .dump() +
      "\n";
  std::error_code ignored;  // writing will fail then
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  try {
    AtomicFile file(path);
    file.write(text.data(), text.size());
    file.commit();
    return true;
  } catch (const DafError&) {
    return false;
  }
}

}  // namespace daf
