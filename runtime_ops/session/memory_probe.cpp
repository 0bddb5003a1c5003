#include "runtime_ops/session/memory_probe.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "runtime_ops/session/file.h"

#ifdef __ANDROID__
#include <sys/system_properties.h>
#endif

namespace daf {
namespace {

// Files of /proc have no size: read to the end. Empty when the file is not there.
std::string read_virtual_file(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

#ifdef __ANDROID__
std::string property(const char* name) {
  char value[PROP_VALUE_MAX] = "";
  __system_property_get(name, value);
  return value;
}
#else
std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of(std::string("\n\0", 2)));
}

// The text after "field   : " in /proc/cpuinfo.
std::string cpu_field(const std::string& field) {
  std::istringstream lines(read_virtual_file("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon != line.npos && line.compare(0, field.size(), field) == 0) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

std::string machine_model() {
  for (const char* path : {"/proc/device-tree/model", "/sys/class/dmi/id/product_name"}) {
    std::string model = first_line(read_virtual_file(path));
    if (!model.empty()) return model;
  }
  return cpu_field("model name");
}
#endif

}  // namespace

int64_t find_kilobytes(const std::string& text, const std::string& field) {
  const size_t at = ("\n" + text).find("\n" + field + ":");
  if (at == std::string::npos) return 0;
  return std::strtoll(text.c_str() + at + field.size() + 1, nullptr, 10) * 1024;
}

ProcessMemory read_process_memory() {
  const std::string status = read_virtual_file("/proc/self/status");
  return {find_kilobytes(status, "VmRSS"), find_kilobytes(status, "VmHWM"),
          find_kilobytes(status, "VmSwap"),
          find_kilobytes(read_virtual_file("/proc/meminfo"), "MemAvailable")};
}

std::optional<int64_t> read_pss_bytes() {
  const std::string rollup = read_virtual_file("/proc/self/smaps_rollup");
  if (rollup.empty()) return std::nullopt;
  return find_kilobytes(rollup, "Pss");
}

void reset_peak_rss() {
  FileDescriptor fd(::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
  if (fd.get() >= 0) write_all(fd.get(), "5", 1);
}

DeviceFacts read_device_facts() {
  DeviceFacts facts;
  struct utsname system = {};
  ::uname(&system);
#ifdef __ANDROID__
  facts.model = property("ro.product.model");
  facts.soc = property("ro.soc.model");
  facts.os = "Android " + property("ro.build.version.release");
  facts.abi = property("ro.product.cpu.abi");
#else
  facts.model = machine_model();
  facts.soc = cpu_field("model name");
  facts.os = std::string(system.sysname) + " " + system.release;
  facts.abi = system.machine;
#endif
  facts.cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  facts.ram_bytes = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  return facts;
}

}  // namespace daf
