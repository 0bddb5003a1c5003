#include <gtest/gtest.h>

#include "manifest_example.h"
#include "runtime_ops/session/manifest.h"
#include "session_testing.h"

namespace daf {
namespace {

TEST(Manifest, ReadsWhatTheSessionNeeds) {
  const Manifest manifest = Manifest::parse(example_manifest());
  EXPECT_EQ(manifest.program_file, "m.pte");
  EXPECT_EQ(manifest.program_size_bytes, 1000);
  EXPECT_EQ(manifest.program_sha256, "abcd");
  EXPECT_EQ(manifest.model_name, "mlp");
  EXPECT_EQ(manifest.batch_size, 4);
  EXPECT_FALSE(manifest.dynamic_batch);
  EXPECT_EQ(manifest.lr, 0.5);
  ASSERT_EQ(manifest.train_step.inputs.size(), 2u);
  EXPECT_EQ(manifest.train_step.inputs[0].name, "x");
  EXPECT_EQ(manifest.train_step.inputs[0].type_and_shape(), "float32[4, 2]");
  EXPECT_EQ(manifest.train_step.runtime_inputs,
            (std::vector<RuntimeInput>{RuntimeInput::kLr, RuntimeInput::kClock}));
  EXPECT_EQ(manifest.train_step.outputs, std::vector<std::string>{"loss"});
  ASSERT_EQ(manifest.train_step.phases.size(), 2u);
  EXPECT_EQ(manifest.train_step.phases[1].phase, Phase::kBackward);
  EXPECT_EQ(manifest.train_step.phases[1].n_instructions, 5);
  EXPECT_TRUE(manifest.predict.phases.empty());
  EXPECT_EQ(manifest.state_memory_id, 2);
  ASSERT_EQ(manifest.state.size(), 3u);
  EXPECT_EQ(manifest.state[1].kind, StateKind::kBuffer);
  EXPECT_EQ(manifest.state[2].spec.name, "l.weight.momentum_buffer");
  EXPECT_EQ(manifest.state[2].offset, 64);
  EXPECT_EQ(manifest.memory_plan.dump(), R"({"arena":7,"activations":6,"gradients":1})");
  EXPECT_EQ(manifest.activation_bytes, 6);
  EXPECT_EQ(manifest.gradient_bytes, 1);
}

TEST(Manifest, ReadsAProgramWithoutOptimizer) {
  EXPECT_EQ(
      Manifest::parse(example_manifest({{R"({"name":"sgd","lr":0.5})", R"({"name":"none"})"}})).lr,
      0);
}

// An update of two of four channels.
std::string sparse_manifest(const std::string& update) {
  return example_manifest({{R"("kind":"optimizer")", R"("kind":"index")"},
                           {R"("memory":{)", R"("update":)" + update + R"(,"memory":{)"}});
}

TEST(Manifest, ReadsWhichChannelsMayTrain) {
  const Manifest dense = Manifest::parse(sparse_manifest(R"({"mode":"dense"})"));
  EXPECT_TRUE(dense.update.layers.empty());
  const Manifest sparse = Manifest::parse(
      sparse_manifest(R"({"mode":"sparse","rotate_every":7,"select":"gradient","layers":[)"
                      R"({"name":"l","parameter":"l.weight","axis":1,"channels":4,"chosen":2}]})"));
  EXPECT_EQ(sparse.state[2].kind, StateKind::kIndex);
  EXPECT_EQ(sparse.state[2].parameter, "l.weight");
  EXPECT_EQ(sparse.update.rotate_every, 7);
  EXPECT_EQ(sparse.update.selection, ChannelSelection::kGradient);
  ASSERT_EQ(sparse.update.layers.size(), 1u);
  EXPECT_EQ(sparse.update.layers[0].parameter, "l.weight");
  EXPECT_EQ(sparse.update.layers[0].axis, 1);
  EXPECT_EQ(sparse.update.layers[0].n_channels, 4);
  EXPECT_EQ(sparse.update.layers[0].n_chosen, 2);

  const auto error = [](const std::string& update) {
    return error_of([&] { Manifest::parse(sparse_manifest(update)); });
  };
  EXPECT_EQ(error(R"({"layers":[],"select":"best","rotate_every":1})"),
            "update.select: must be norm, gradient or random");
  EXPECT_EQ(error(R"({"layers":[],"select":"norm","rotate_every":-1})"),
            "update.rotate_every: must not be negative, found -1");
  EXPECT_EQ(error(R"({"layers":[{"name":"l","parameter":"l.weight","axis":1,"channels":0,)"
                  R"("chosen":2}],"select":"norm","rotate_every":1})"),
            "update.layers[0].channels: must be at least 1");
}

TEST(Manifest, NamesWhatIsWrong) {
  const struct {
    const char *from, *to, *error;
  } cases[] = {
      {"daf-manifest", "other", "it is not a daf manifest"},
      {R"("schema":1)", R"("schema":2)", "built for schema 1, the program has 2"},
      {R"("size_bytes":1000)", R"("size_bytes":-1)",
       "program.size_bytes: must not be negative, found -1"},
      {R"("batch_size":4)", R"("batch_size":0)", "batch_size: must be at least 1, found 0"},
      {R"("batch_size":4)", R"("batch_size":"4")",
       "batch_size: expected an integer, found a string"},
      {R"("batch_size":4)", R"("batch_size":5)",
       "input 'x' is float32[4, 2], axis 0 must be the batch of 5"},
      {R"("dtype":"int64")", R"("dtype":"long")",
       "methods.train_step.inputs[1].dtype: 'long' is not supported"},
      {R"(["lr","clock"])", R"(["lr","time"])",
       R"(methods.train_step.runtime_inputs: expected "lr" or "clock", found "time")"},
      {R"(["backward",5])", R"(["sideways",5])",
       R"(methods.train_step.phases: expected ["forward|backward|update", count], found ["sideways",5])"},
      {R"(["backward",5])", R"(["backward",-5])",
       R"(methods.train_step.phases: expected ["forward|backward|update", count], found ["backward",-5])"},
      {R"([{"name":"loss"}])", "[]", "methods.train_step.outputs: the first must be the loss"},
      {R"("kind":"buffer")", R"("kind":"tensor")",
       "state.tensors[1].kind: expected parameter, buffer, optimizer or index, found 'tensor'"},
      {R"("offset":64)", R"("offset":8)",
       "state tensor 'l.weight.momentum_buffer' overlaps another"},
      {R"("offset":64)", R"("offset":120)",
       "state tensor 'l.weight.momentum_buffer' is outside the state's memory"},
      {R"("name":"n")", R"("name":"l.weight")", "state tensor 'l.weight' is there twice"},
      {R"("shape":[2,2])", R"("shape":[4611686018427387904,4])",
       "state.tensors[0].shape: it is too large"},
      {R"("predict")", R"("infer")", "methods.predict: missing"},
  };
  for (const auto& c : cases) {
    const std::string text = example_manifest({{c.from, c.to}});
    EXPECT_EQ(error_of([&] { Manifest::parse(text); }), c.error) << c.to;
  }
}

std::string with_store(const std::string& entry, int64_t schema = kStoreSchema) {
  const std::string store =
      R"("store":{"schema":)" + std::to_string(schema) +
      R"(,"importance":"uniform","chunk_bytes":0,"budget_bytes":null,"entries":[)" +
      R"({"name":"relu","n_elements":6272,"bits":2,"min_bits":1,"sensitivity":1)" + entry + "}]},";
  return example_manifest({{R"("memory":)", store + R"("memory":)"}});
}

TEST(Manifest, StoredTensorsMayBeMaps) {
  EXPECT_FALSE(Manifest::parse(with_store("")).store.entries.at(0).map.is_used());
  const MapEncoding map =
      Manifest::parse(
          with_store(R"(,"map":{"height":56,"width":28,"block_height":8,"block_width":7})"))
          .store.entries.at(0)
          .map;
  EXPECT_EQ(map.height, 56);
  EXPECT_EQ(map.width, 28);
  EXPECT_EQ(map.block_height, 8);
  EXPECT_EQ(map.block_width, 7);
}

TEST(Manifest, StoredTensorsMayBeProbabilities) {
  const auto parsed = [](const std::string& entry) {
    return Manifest::parse(with_store(entry)).store.entries.at(0).are_probabilities;
  };
  EXPECT_FALSE(parsed(""));
  EXPECT_TRUE(parsed(R"(,"probabilities":true)"));
  EXPECT_EQ(error_of([&] { parsed(R"(,"probabilities":1)"); }),
            "store.entries[0].probabilities: expected true or false, found an integer");
}

TEST(Manifest, BadMapsAndPlansOfAnotherSchemaAreRefused) {
  const auto error = [](const std::string& text) {
    return error_of([&] { Manifest::parse(text); });
  };
  EXPECT_EQ(
      error(with_store(R"(,"map":{"height":55,"width":28,"block_height":8,"block_width":8})")),
      "store.entries[0].map: its 6272 elements are not whole maps");
  for (const char* map :
       {R"({"height":0,"width":28,"block_height":8,"block_width":8})",
        R"({"height":7,"width":28,"block_height":8,"block_width":8})",
        R"({"height":56,"width":28,"block_height":0,"block_width":8})",
        R"({"height":6272,"width":1,"block_height":65,"block_width":1})",
        R"({"height":4611686018427387904,"width":4,"block_height":2,"block_width":2})"}) {
    EXPECT_EQ(error(with_store(R"(,"map":)" + std::string(map))),
              "store.entries[0].map: the blocks of its maps are not 1 to 64 wide and high, and at "
              "most their size")
        << map;
  }
  EXPECT_EQ(error(with_store(R"(,"map":{"height":56,"width":28,"block_height":8})")),
            "store.entries[0].map.block_width: missing");
  EXPECT_EQ(error(with_store("", 3)), "store.schema: this runtime stores activations by schema " +
                                          std::to_string(kStoreSchema) + ", the program by 3");
}

TEST(Manifest, LoadNamesTheFileAndTheNextStep) {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.daf.json");
  expect_daf_error(
      Exit::kProgram,
      "cannot use the manifest " + path +
          ": no such file; daf-export writes it beside the program, keep the two together",
      [&] { Manifest::load(path); });
  write_file(path, example_manifest({{R"("schema":1)", R"("schema":9)"}}));
  expect_daf_error(
      Exit::kProgram,
      "built for schema 1, the program has 9; export again with this version of daf-export",
      [&] { Manifest::load(path); });
  write_file(path, example_manifest());
  EXPECT_EQ(Manifest::load(path).batch_size, 4);
}

TEST(Manifest, SurvivesDamage) {
  expect_damage_is_refused<FormatError>(example_manifest(),
                                        [](const std::string& text) { Manifest::parse(text); });
}

}  // namespace
}  // namespace daf
