#include <gtest/gtest.h>

#include "runtime_ops/session/run_request.h"
#include "session_testing.h"

namespace daf {
namespace {

const char* const kLeast =
    R"({"schema":1,"program":"r.pte","manifest":"r.daf.json","data":"d.safetensors","steps":100})";

const char* const kFull =
    R"({"schema":1,"program":"r.pte","manifest":"r.daf.json","data":"d.safetensors","steps":100,)"
    R"("seed":9223372036854775807,"shuffle":false,"lr":0.5,"schedule":"cosine","warmup_steps":3,)"
    R"("total_steps":200,"save":"w.safetensors","save_every":10,"resume":"v.safetensors",)"
    R"("trace":"r.trace","config":{"a":[1]}})";

TEST(RunRequest, FillsInDefaults) {
  const RunRequest request = RunRequest::parse(kLeast);
  EXPECT_EQ(request.program, "r.pte");
  EXPECT_EQ(request.manifest, "r.daf.json");
  EXPECT_EQ(request.data, "d.safetensors");
  EXPECT_EQ(request.steps, 100);
  EXPECT_EQ(request.seed, 0);
  EXPECT_TRUE(request.shuffle);
  EXPECT_FALSE(request.lr.has_value());
  EXPECT_EQ(request.schedule, ScheduleKind::kConstant);
  EXPECT_EQ(request.warmup_steps, 0);
  EXPECT_EQ(request.total_steps, 100);
  EXPECT_EQ(request.save + request.resume + request.trace, "");
  EXPECT_EQ(request.save_every, 0);
  EXPECT_EQ(request.config.dump(), "{}");
}

TEST(RunRequest, ReadsEveryField) {
  const RunRequest request = RunRequest::parse(kFull);
  EXPECT_EQ(request.seed, INT64_MAX);
  EXPECT_FALSE(request.shuffle);
  EXPECT_EQ(request.lr, 0.5);
  EXPECT_EQ(request.schedule, ScheduleKind::kCosine);
  EXPECT_EQ(request.warmup_steps, 3);
  EXPECT_EQ(request.total_steps, 200);
  EXPECT_EQ(request.save, "w.safetensors");
  EXPECT_EQ(request.save_every, 10);
  EXPECT_EQ(request.resume, "v.safetensors");
  EXPECT_EQ(request.trace, "r.trace");
  EXPECT_EQ(request.config.dump(), R"({"a":[1]})");
}

TEST(RunRequest, TakesNullForWhatIsNotWanted) {
  const RunRequest request = RunRequest::parse(
      R"({"schema":1,"program":"r","manifest":"m","data":"d","steps":1,"lr":null,"save":null,)"
      R"("resume":null,"trace":null})");
  EXPECT_FALSE(request.lr.has_value());
  EXPECT_EQ(request.save + request.resume + request.trace, "");
}

TEST(RunRequest, NamesWhatIsWrong) {
  const struct {
    const char *from, *to, *error;
  } cases[] = {
      {"\"schema\":1", "\"schema\":2", "schema: this runtime reads 1, found 2"},
      {"\"shuffle\"", "\"shufle\"", "shufle: unknown key"},
      {"\"steps\":100", "\"steps\":1.5", "steps: expected an integer, found a number"},
      {"\"steps\":100", "\"steps\":-1", "steps: must not be negative, found -1"},
      {"\"steps\":100,", "", "steps: missing"},
      {"\"r.pte\"", "\"\"", "program: must not be empty"},
      {"\"r.pte\"", "null", "program: expected a string, found null"},
      {"false", "0", "shuffle: expected true or false, found an integer"},
      {"0.5", "-0.5", "lr: must not be negative"},
      {"0.5", "\"0.5\"", "lr: expected a number, found a string"},
      {"cosine", "linear", "schedule: expected constant or cosine, found 'linear'"},
      {"\"w.safetensors\"", "null", "save_every: needs save"},
      {"{\"a\":[1]}", "[]", "config: expected an object, found an array"},
  };
  for (const auto& c : cases) {
    std::string text = kFull;
    text.replace(text.find(c.from), std::string(c.from).size(), c.to);
    expect_daf_error(Exit::kUsage, std::string("cannot read the run request: ") + c.error,
                     [&] { RunRequest::parse(text); });
  }
}

TEST(RunRequest, SurvivesDamage) {
  expect_damage_is_refused<DafError>(kFull,
                                     [](const std::string& text) { RunRequest::parse(text); });
}

}  // namespace
}  // namespace daf
