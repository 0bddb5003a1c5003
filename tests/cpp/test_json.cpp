#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime_ops/session/error.h"
#include "runtime_ops/session/json.h"
#include "runtime_ops/session/json_fields.h"
#include "session_testing.h"

namespace daf {
namespace {

std::string round_trip(const std::string& text) { return Json::parse(text).dump(); }

TEST(Json, KeepsStructureAndOrder) {
  const std::string text = R"({"b":[1,-2,[],{}],"a":{"x":null,"y":true,"z":false},"":"s"})";
  EXPECT_EQ(round_trip(text), text);
  EXPECT_EQ(round_trip(" {\n\t\"a\" : [ 1 , 2 ]\r} "), R"({"a":[1,2]})");
}

TEST(Json, KeepsIntegersExact) {
  for (const char* text : {"0", "-1", "9223372036854775807", "-9223372036854775808"}) {
    ASSERT_NE(Json::parse(text).integer(), nullptr) << text;
    EXPECT_EQ(round_trip(text), text);
  }
  EXPECT_EQ(*Json::parse("9223372036854775808").real(), 9223372036854775808.0);
}

TEST(Json, WritesTheShortestDouble) {
  EXPECT_EQ(Json(0.1).dump(), "0.1");
  EXPECT_EQ(Json(1.0).dump(), "1.0");
  EXPECT_EQ(Json(-0.0).dump(), "-0.0");
  EXPECT_EQ(Json(1e300).dump(), "1e+300");
  const double values[] = {2.3025851249694824,
                           std::numeric_limits<double>::max(),
                           std::numeric_limits<double>::min(),
                           std::numeric_limits<double>::denorm_min(),
                           1.0 / 3,
                           -1e-7};
  for (const double value : values) {
    const Json parsed = Json::parse(Json(value).dump());
    ASSERT_NE(parsed.real(), nullptr);
    EXPECT_EQ(*parsed.real(), value);
  }
}

TEST(Json, WritesWhatJsonLacksAsStrings) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Json(Json::Array{std::nan(""), inf, -inf}).dump(), R"(["NaN","Infinity","-Infinity"])");
}

TEST(Json, DecodesEscapes) {
  EXPECT_EQ(*Json::parse(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00")").string(),
            "\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(Json("a\"\\\n\x01\xE2\x82\xAC").dump(), "\"a\\\"\\\\\\u000a\\u0001\xE2\x82\xAC\"");
}

TEST(Json, WritesInvalidUtf8AsReplacement) {
  EXPECT_EQ(Json("a\xFF\xC3z").dump(), "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\"");
}

TEST(Json, RefusesWhatIsNotJson) {
  const char* const texts[] = {"",
                               "nul",
                               "[1,]",
                               "[1 2]",
                               "{\"a\":1,}",
                               "{a:1}",
                               "{\"a\" 1}",
                               "'a'",
                               "01",
                               "-",
                               "1.",
                               ".5",
                               "1e",
                               "+1",
                               "1e999",
                               "NaN",
                               "\"a",
                               "\"\n\"",
                               "\"\\x\"",
                               "\"\\u12g4\"",
                               "\"\\ud800\"",
                               "\"\\ud800\\u0041\"",
                               "\"\\udc00\"",
                               "1 1",
                               "[",
                               "\"\xC0\x80\"",
                               "\"\xED\xA0\x80\"",
                               "\"\xF4\x90\x80\x80\"",
                               "\"\xFF\""};
  for (const char* text : texts) EXPECT_THROW(Json::parse(text), FormatError) << text;
}

TEST(Json, SaysWhereItIsWrong) {
  EXPECT_EQ(error_of([] { Json::parse("[1, x]"); }), "not valid JSON at byte 4: expected a value");
  EXPECT_EQ(error_of([] { Json::parse(R"({"a":1,"b":2,"a":3})"); }),
            "not valid JSON at byte 19: the key 'a' is there twice");
}

TEST(Json, LimitsTheDepth) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(Json::parse(nested(Json::kMaxDepth)));
  EXPECT_THROW(Json::parse(nested(Json::kMaxDepth + 2)), FormatError);
  EXPECT_THROW(Json::parse(std::string(1'000'000, '[')), FormatError);
}

TEST(Json, SurvivesDamage) {
  expect_damage_is_refused<FormatError>(
      R"({"a":[1,-2.5e3,"\u20ac\n",true],"b":{"c":null,"d":"é"}})",
      [](const std::string& text) { Json::parse(text); });
}

TEST(JsonFields, NamesThePathAndTheTypes) {
  const Json document = Json::parse(R"({"a":{"b":[{"c":1.5}],"n":-1},"sizes":[1,"2"]})");
  const JsonFields fields(document, "");
  const JsonFields a = fields.object("a");
  const JsonFields b0 = a.objects("b")[0];
  EXPECT_EQ(b0.number("c"), 1.5);
  EXPECT_EQ(a.integer("n"), -1);
  EXPECT_EQ(a.integer("missing", 7), 7);
  EXPECT_EQ(error_of([&] { b0.integer("c"); }), "a.b[0].c: expected an integer, found a number");
  EXPECT_EQ(error_of([&] { b0.string("d"); }), "a.b[0].d: missing");
  EXPECT_EQ(error_of([&] { a.size("n"); }), "a.n: must not be negative, found -1");
  EXPECT_EQ(error_of([&] { fields.object("sizes"); }), "sizes: expected an object, found an array");
  EXPECT_EQ(error_of([&] { fields.sizes("sizes"); }), "sizes: expected sizes >= 0, found \"2\"");
  EXPECT_EQ(error_of([&] { fields.refuse_unknown({"a"}); }), "sizes: unknown key");
}

}  // namespace
}  // namespace daf
