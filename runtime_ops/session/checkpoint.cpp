#include "runtime_ops/session/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/safetensors.h"

namespace daf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "daf-checkpoint";
constexpr const char* kSchema = "1";
constexpr std::string_view kSuffix = ".safetensors";

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// "W.optim-" for "W.safetensors".
std::string optimizer_prefix(const fs::path& weights) {
  std::string name = weights.filename().string();
  if (ends_with(name, kSuffix)) name.resize(name.size() - kSuffix.size());
  return name + ".optim-";
}

// A name that no file has: the pair that is there stays whole until the new one is.
std::string new_optimizer_file(const fs::path& weights, int64_t step) {
  const std::string stem = optimizer_prefix(weights) + std::to_string(step);
  std::string name = stem + std::string(kSuffix);
  for (int i = 1; fs::exists(weights.parent_path() / name); ++i) {
    name = stem + "-" + std::to_string(i) + std::string(kSuffix);
  }
  return name;
}

// Optimizer files of this checkpoint other than `keep`, also those of interrupted saves.
void remove_older(const fs::path& weights, const std::string& keep) {
  const std::string prefix = optimizer_prefix(weights);
  const fs::path folder = weights.has_parent_path() ? weights.parent_path() : fs::path(".");
  std::error_code ignored;  // a file that stays costs only space
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.compare(0, prefix.size(), prefix) != 0 || name == keep) continue;
    std::string_view rest = std::string_view(name).substr(prefix.size());
    rest.remove_prefix(std::min(rest.find_first_not_of("0123456789-"), rest.size()));
    if (rest == ".safetensors" || rest == ".safetensors.tmp") fs::remove(entry.path(), ignored);
  }
}

std::vector<ConstTensorView> select(const std::vector<StateView>& state, bool optimizer) {
  std::vector<ConstTensorView> views;
  for (const StateView& view : state) {
    if (is_weight(view.kind) != optimizer) views.push_back({view.spec, view.data});
  }
  return views;
}

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw DafError(Exit::kWeights, "cannot resume from " + path + ": " + reason);
}

std::string metadata_value(const std::string& path, const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    fail(path, std::string("its metadata has no '") + key +
                   "'; resume from a file that was written with --save");
  }
  return found->second;
}

int64_t metadata_integer(const std::string& path, const Metadata& metadata, const char* key) {
  const std::string text = metadata_value(path, metadata, key);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(path, std::string("its metadata has ") + key + " '" + text +
                   "', not a number; it is damaged, resume from another file");
  }
  return value;
}

constexpr const char* kSensitivities = "store_sensitivities";

// In hexadecimal, which loses nothing.
std::string numbers_text(const std::vector<double>& numbers) {
  std::ostringstream text;
  text << std::hexfloat;
  for (const double number : numbers) text << (text.tellp() > 0 ? " " : "") << number;
  return text.str();
}

std::vector<double> parse_numbers(const std::string& path, const std::string& text) {
  std::vector<double> numbers;
  for (const char* next = text.c_str(); *next != '\0';) {
    char* end = nullptr;
    numbers.push_back(std::strtod(next, &end));
    if (end == next) {
      fail(path, std::string("its metadata has ") + kSensitivities +
                     " that are not numbers; it is damaged, resume from another file");
    }
    next = end;
  }
  return numbers;
}

// Lists up to five, then says how many more.
std::string list_names(const std::vector<std::string>& names) {
  constexpr size_t kMaxListed = 5;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMaxListed; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > kMaxListed) {
    text += " and " + std::to_string(names.size() - kMaxListed) + " more";
  }
  return text;
}

// One of the two files, checked to hold exactly the wanted part of the state.
class CheckpointFile {
 public:
  CheckpointFile(const std::string& path, const std::vector<StateView>& state, bool optimizer)
      : path_(path), file_(open(path, optimizer)) {
    if (metadata("format") != kFormat || metadata("schema") != kSchema) {
      fail(path, "it is not a checkpoint of this version of daf; save one with --save");
    }
    for (const StateView& view : state) {
      if (is_weight(view.kind) != optimizer) wanted_.push_back(&view);
    }
    check_names();
    for (const StateView* view : wanted_) check_type(view->spec);
  }

  std::string metadata(const char* key) const {
    return metadata_value(path_, file_.metadata(), key);
  }
  bool has_metadata(const char* key) const { return file_.metadata().count(key) > 0; }
  int64_t integer(const char* key) const { return metadata_integer(path_, file_.metadata(), key); }

  void read_all() const {
    try {
      for (const StateView* view : wanted_) file_.read(*file_.find(view->spec.name), view->data);
    } catch (const FormatError& error) {
      fail(path_, std::string(error.what()) + "; resume from another file");
    }
  }

 private:
  static SafetensorsFile open(const std::string& path, bool optimizer) {
    try {
      return SafetensorsFile(path);
    } catch (const FormatError& error) {
      fail(path, std::string(error.what()) +
                     (optimizer ? "; keep it beside the weights it was saved with"
                                : "; resume from a file that was written with --save"));
    }
  }

  void check_names() const {
    std::set<std::string> known;
    std::vector<std::string> missing, extra;
    for (const StateView* view : wanted_) {
      known.insert(view->spec.name);
      if (file_.find(view->spec.name) == nullptr) missing.push_back(view->spec.name);
    }
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (known.count(entry.spec.name) == 0) extra.push_back(entry.spec.name);
    }
    if (missing.empty() && extra.empty()) return;
    std::string reason = "it is of another model;";
    if (!missing.empty()) reason += " missing: " + list_names(missing) + ";";
    if (!extra.empty()) reason += " not in the program: " + list_names(extra) + ";";
    fail(path_, reason + " use the program it was saved by");
  }

  void check_type(const TensorSpec& spec) const {
    const TensorSpec& found = file_.find(spec.name)->spec;
    if (found.dtype == spec.dtype && found.shape == spec.shape) return;
    fail(path_, "'" + spec.name + "' must be " + spec.type_and_shape() + ", found " +
                    found.type_and_shape() + "; use the program it was saved by");
  }

  std::string path_;
  SafetensorsFile file_;
  std::vector<const StateView*> wanted_;
};

}  // namespace

void save_checkpoint(const std::string& path, const std::vector<StateView>& state,
                     const CheckpointInfo& info) {
  Metadata metadata = {{"format", kFormat},
                       {"schema", kSchema},
                       {"step", std::to_string(info.step)},
                       {"seed", std::to_string(info.seed)},
                       {"program_sha256", info.program_sha256},
                       {"model", info.model_name}};
  if (!info.sensitivities.empty()) metadata[kSensitivities] = numbers_text(info.sensitivities);
  const std::vector<ConstTensorView> optimizer = select(state, true);
  std::string optimizer_file;
  if (!optimizer.empty()) {
    optimizer_file = new_optimizer_file(path, info.step);
    write_safetensors((fs::path(path).parent_path() / optimizer_file).string(), optimizer,
                      metadata);
    metadata["optimizer_file"] = optimizer_file;
  }
  write_safetensors(path, select(state, false), metadata);
  remove_older(path, optimizer_file);
}

CheckpointInfo restore_checkpoint(const std::string& path, const std::vector<StateView>& state) {
  const CheckpointFile weights(path, state, /*optimizer=*/false);
  CheckpointInfo info = {weights.integer("step"),
                         weights.integer("seed"),
                         weights.metadata("program_sha256"),
                         weights.metadata("model"),
                         {}};
  if (weights.has_metadata(kSensitivities)) {
    info.sensitivities = parse_numbers(path, weights.metadata(kSensitivities));
  }
  if (info.step < 0) fail(path, "its metadata has a negative step; it is damaged");
  std::optional<CheckpointFile> optimizer;
  if (!select(state, true).empty()) {
    // The name alone: a pair of files may be moved together.
    const fs::path name = fs::path(weights.metadata("optimizer_file")).filename();
    const std::string optimizer_path = (fs::path(path).parent_path() / name).string();
    optimizer.emplace(optimizer_path, state, /*optimizer=*/true);
    if (optimizer->integer("step") != info.step || optimizer->integer("seed") != info.seed) {
      fail(path, "its optimizer state " + name.string() + " is of step " +
                     std::to_string(optimizer->integer("step")) + ", not " +
                     std::to_string(info.step) + "; resume from another file");
    }
  }
  weights.read_all();
  if (optimizer) optimizer->read_all();
  return info;
}

}  // namespace daf
