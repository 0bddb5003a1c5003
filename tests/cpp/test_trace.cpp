#include <gtest/gtest.h>

#include <cmath>

#include "runtime_ops/session/trace.h"
#include "session_testing.h"

namespace daf {
namespace {

TEST(Trace, WritesTheHeader) {
  TraceHeader header;
  header.device_kind = "local";
  header.device = {"Phone 1", "Chip", "Android 14", "arm64-v8a", 8, 4096};
  header.program_file = "m.pte";
  header.program_sha256 = "ab";
  header.model_name = "mlp";
  header.config = Json::parse(R"({"lr":0.5})");
  header.started_unix_ms = 1700000000000;
  header.memory_plan = Json::parse(R"({"arena":7})");
  header.rss_baseline_bytes = 99;
  header.available_bytes = 98;
  header.activations = Json::parse(R"([{"name":"relu"}])");
  EXPECT_EQ(
      to_json(header).dump(),
      R"({"type":"header","format":"daf-trace","schema":1,"minor":2,"daf_version":")" DAF_VERSION
      R"(","device":{"kind":"local","model":"Phone 1","soc":"Chip","os":"Android 14",)"
      R"("abi":"arm64-v8a","cores":8,"ram_bytes":4096},)"
      R"("program":{"file":"m.pte","sha256":"ab","model":"mlp"},"config":{"lr":0.5},)"
      R"("clock":{"unit":"us","started_unix_ms":1700000000000},"memory_plan":{"arena":7},)"
      R"("rss_baseline_bytes":99,"available_bytes":98,"activations":[{"name":"relu"}]})");
}

TEST(Trace, WritesSteps) {
  StepRow row;
  row.step = 3;
  row.t_us = 50;
  row.loss = 0.25;
  row.lr = 0.1;
  row.samples = 4;
  row.total_us = 12;
  row.peak = {1, 2, 3, 4, 6, 7, 8, 5, 9};
  const std::string peak =
      R"("peak":{"weights":1,"constants":2,"optimizer":3,"arena":4,"activations":6,"gradients":7,"pool":8,"workspace":5,"batch":9}})";
  EXPECT_EQ(to_json(row).dump(),
            R"({"type":"step","step":3,"t_us":50,"loss":0.25,"lr":0.1,"samples":4,)"
            R"("forward_us":null,"backward_us":null,"update_us":null,"total_us":12,)" +
                peak);
  row.loss = std::nan("");
  row.forward_us = 5;
  row.backward_us = 6;
  row.update_us = 1;
  EXPECT_EQ(to_json(row).dump(),
            R"({"type":"step","step":3,"t_us":50,"loss":"NaN","lr":0.1,"samples":4,)"
            R"("forward_us":5,"backward_us":6,"update_us":1,"total_us":12,)" +
                peak);
}

TEST(Trace, WritesCountersEventsAndFooter) {
  CounterRow counters = {
      3, 60, {1, 2, 3, 4, 6, 7, 8, 5, 9}, {100, 120, 7, 300}, std::nullopt, std::nullopt};
  const std::string parts =
      R"("weights":1,"constants":2,"optimizer":3,"arena":4,"activations":6,"gradients":7,"pool":8,"workspace":5,"batch":9)";
  const std::string start = R"({"type":"counters","step":3,"t_us":60,)" + parts;
  EXPECT_EQ(to_json(counters).dump(),
            start + R"(,"rss":100,"peak_rss":120,"swap":7,"available":300})");
  counters.pss_bytes = 90;
  EXPECT_EQ(to_json(counters).dump(),
            start + R"(,"rss":100,"peak_rss":120,"swap":7,"available":300,"pss":90})");
  counters.temperature_mc = 41500;
  EXPECT_EQ(
      to_json(counters).dump(),
      start +
          R"(,"rss":100,"peak_rss":120,"swap":7,"available":300,"pss":90,"temperature_mc":41500})");
  EXPECT_EQ(event_json("checkpoint", 3, 61, {{"path", "w"}}).dump(),
            R"({"type":"event","t_us":61,"step":3,"event":"checkpoint","path":"w"})");
  TraceFooter footer = {EndReason::kDone, 3, 120, {1, 2, 3, 4, 6, 7, 8, 5, 9}, 70, std::nullopt};
  const std::string end =
      R"("steps":3,"peak_rss_bytes":120,"peak":{)" + parts + R"(},"t_us":70,"error":)";
  EXPECT_EQ(to_json(footer).dump(),
            R"({"type":"footer","completed":true,"reason":"done",)" + end + "null}");
  footer.reason = EndReason::kStopped;
  EXPECT_EQ(to_json(footer).dump(),
            R"({"type":"footer","completed":false,"reason":"stopped",)" + end + "null}");
  footer.reason = EndReason::kError;
  footer.error = "why";
  EXPECT_EQ(to_json(footer).dump(),
            R"({"type":"footer","completed":false,"reason":"error",)" + end + "\"why\"}");
}

TEST(TraceWriter, GivesEveryLineToTheHostAndTheFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("run.trace");
  write_file(path, "of an earlier run\n");
  std::vector<std::string> lines;
  TraceWriter writer(path, [&](const std::string& line) { lines.push_back(line); });
  EXPECT_EQ(writer.write(Json::Object{{"a", 1}}), R"({"a":1})");
  writer.write(Json::Object{{"b", "x\ny"}});
  EXPECT_EQ(lines, (std::vector<std::string>{R"({"a":1})", R"({"b":"x\u000ay"})"}));
  EXPECT_EQ(read_file(path), lines[0] + "\n" + lines[1] + "\n");
}

TEST(TraceWriter, NeedsNoFile) {
  int n_lines = 0;
  TraceWriter("", [&](const std::string&) { ++n_lines; }).write(Json::Object{});
  EXPECT_EQ(n_lines, 1);
}

TEST(TraceWriter, SaysWhyItCannotWrite) {
  const TemporaryFolder folder;
  const auto ignore = [](const std::string&) {};
  expect_daf_error(Exit::kOutput, "its folder does not exist",
                   [&] { TraceWriter(folder.file("none/run.trace"), ignore); });
  expect_daf_error(Exit::kOutput,
                   "cannot write /dev/full: no space left on the device; free some space",
                   [&] { TraceWriter("/dev/full", ignore).write(Json::Object{}); });
}

}  // namespace
}  // namespace daf
