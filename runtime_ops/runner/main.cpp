// daf_runner: the training session as an executable, started by a host through `adb shell`.
//
//   daf_runner --version        prints what it is, as one line of JSON
//   daf_runner --tune TABLE.json [--software]
//                               measures reduction (tune_reduce.h), with lines of JSON as below:
//     {"type":"tuned","size":n}
//     {"type":"table","device":"..."}       of whom; empty where no GPU can be used
//   daf_runner REQUEST.json     runs a request; every line on standard output is a JSON object:
//     {"type":"hello",...}      first
//     the lines of the trace    as they are written to the trace file
//     {"type":"alive"}          every second
//     {"type":"exit","code":0,"error":null}    last
//
// SIGINT, SIGTERM, SIGHUP, or the end of standard input stop the run after the current step.

#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>  // initialises the streams for libraries that expect a newer C++ runtime to do it
#include <new>
#include <string>
#include <vector>

#include "runtime_ops/runner/host_link.h"
#include "runtime_ops/session/error.h"
#include "runtime_ops/session/file.h"
#include "runtime_ops/session/json.h"
#include "runtime_ops/session/memory_probe.h"
#include "runtime_ops/session/run.h"
#include "runtime_ops/session/tune_reduce.h"

namespace daf {
namespace {

constexpr uint64_t kMaxRequestBytes = 1 << 20;

volatile std::sig_atomic_t stop_requested = 0;

Json hello() {
  return Json::Object{{"type", "hello"},
                      {"format", "daf-runner"},
                      {"schema", 1},
                      {"daf_version", DAF_VERSION},
                      {"abi", read_device_facts().abi},
                      {"pid", ::getpid()}};
}

Json exit_row(int code, const Json& error) {
  return Json::Object{{"type", "exit"}, {"code", code}, {"error", error}};
}

std::string read_request(const std::string& path) {
  try {
    return read_text_file(path, kMaxRequestBytes);
  } catch (const FormatError& error) {
    throw DafError(Exit::kUsage, "cannot read the run request " + path + ": " + error.what() +
                                     "; start the run again");
  }
}

// body() with what it throws told to the host, in the last line.
template <class Body>
int report_to(HostLink& link, Body body) {
  int code = 0;
  Json error;
  try {
    body();
  } catch (const DafError& raised) {
    code = static_cast<int>(raised.exit());
    error = raised.what();
  } catch (const std::bad_alloc&) {
    code = static_cast<int>(Exit::kDevice);
    error = "the device is out of memory; use a smaller model or batch";
  } catch (const std::exception& raised) {
    code = static_cast<int>(Exit::kDevice);
    error = std::string("training failed unexpectedly: ") + raised.what();
  }
  link.send(exit_row(code, error).dump());
  return code;
}

int run_request(const std::string& path) {
  HostLink link;
  link.send(hello().dump());
  RunHost host;
  host.device_kind = "runner";
  host.on_line = [&](const std::string& line) { link.send(line); };
  host.should_stop = [&] { return stop_requested != 0 || link.host_is_gone(); };
  return report_to(link, [&] { run(RunRequest::parse(read_request(path)), host); });
}

int tune(const std::string& table, bool tries_software) {
  HostLink link;
  link.send(hello().dump());
  return report_to(link, [&] {
    const std::string device = tune_reduce(table, tuned_sizes(), tries_software, [&](int64_t size) {
      link.send(Json(Json::Object{{"type", "tuned"}, {"size", size}}).dump());
    });
    link.send(Json(Json::Object{{"type", "table"}, {"device", device}}).dump());
  });
}

}  // namespace
}  // namespace daf

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(number, [](int) { daf::stop_requested = 1; });
  }
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "--version") {
    std::cout << daf::hello().dump() << std::endl;
    return 0;
  }
  const bool tries_software = words.size() == 3 && words[2] == "--software";
  if ((words.size() == 2 || tries_software) && words[0] == "--tune") {
    return daf::tune(words[1], tries_software);
  }
  if (words.size() == 1) return daf::run_request(words[0]);
  std::cerr << "usage: daf_runner REQUEST.json | --version | --tune TABLE.json [--software]\n";
  return static_cast<int>(daf::Exit::kUsage);
}
