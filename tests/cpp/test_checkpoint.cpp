#include <gtest/gtest.h>

#include "runtime_ops/session/checkpoint.h"
#include "runtime_ops/session/safetensors.h"
#include "session_testing.h"

namespace daf {
namespace {

// A parameter, a buffer and the parameter's momentum.
struct State {
  float weight[2] = {1, 2};
  int64_t n_batches = 3;
  float momentum[2] = {4, 5};

  std::vector<StateView> views() {
    return {{{"l.weight", DType::kFloat32, {2}}, StateKind::kParameter, weight},
            {{"n", DType::kInt64, {}}, StateKind::kBuffer, &n_batches},
            {{"l.weight.momentum_buffer", DType::kFloat32, {2}}, StateKind::kOptimizer, momentum}};
  }
};

class CheckpointTest : public ::testing::Test {
 protected:
  void save(State state, int64_t step) {
    save_checkpoint(path_, state.views(), {step, -7, "ab", "mlp", {}});
  }

  State restore() {
    State state = {{0, 0}, 0, {0, 0}};
    info_ = restore_checkpoint(path_, state.views());
    return state;
  }

  void expect_error(const std::string& part) {
    expect_daf_error(Exit::kWeights, part, [&] { restore(); });
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("w.safetensors");
  CheckpointInfo info_;
};

TEST_F(CheckpointTest, RestoresWhatItSaves) {
  save(State(), 12);
  EXPECT_EQ(folder_.list(), "w.optim-12.safetensors w.safetensors ");
  const State state = restore();
  EXPECT_EQ(state.weight[1], 2);
  EXPECT_EQ(state.n_batches, 3);
  EXPECT_EQ(state.momentum[0], 4);
  EXPECT_EQ(info_.step, 12);
  EXPECT_EQ(info_.seed, -7);
  EXPECT_EQ(info_.program_sha256, "ab");
  EXPECT_EQ(info_.model_name, "mlp");
}

TEST_F(CheckpointTest, KeepsIndicesBesideTheOptimizer) {
  State state;
  std::vector<StateView> views = state.views();
  int64_t index[2] = {5, 6};
  views[2] = {{"l.weight.index", DType::kInt64, {2, 1}}, StateKind::kIndex, index, "l.weight"};
  save_checkpoint(path_, views, {3, 0, "ab", "mlp", {}});
  EXPECT_EQ(SafetensorsFile(path_).find("l.weight.index"), nullptr);
  index[1] = 0;
  restore_checkpoint(path_, views);
  EXPECT_EQ(index[1], 6);
}

TEST_F(CheckpointTest, KeepsPyTorchsNamesInTheWeights) {
  save(State(), 12);
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.entries().size(), 2u);
  EXPECT_NE(file.find("l.weight"), nullptr);
  EXPECT_NE(file.find("n"), nullptr);
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "daf-checkpoint"},
                                       {"schema", "1"},
                                       {"step", "12"},
                                       {"seed", "-7"},
                                       {"program_sha256", "ab"},
                                       {"model", "mlp"},
                                       {"optimizer_file", "w.optim-12.safetensors"}}));
}

TEST_F(CheckpointTest, KeepsSensitivitiesToTheBit) {
  const std::vector<double> sensitivities = {0.1, 1e-300, 12345.678, 0};
  State state;
  save_checkpoint(path_, state.views(), {1, 0, "ab", "mlp", sensitivities});
  EXPECT_EQ(restore_checkpoint(path_, state.views()).sensitivities, sensitivities);
}

TEST_F(CheckpointTest, NeedsNoSecondFileWithoutOptimizerState) {
  State state;
  std::vector<StateView> views = state.views();
  views.pop_back();
  save_checkpoint(path_, views, {1, 0, "ab", "mlp", {}});
  EXPECT_EQ(folder_.list(), "w.safetensors ");
  EXPECT_EQ(restore_checkpoint(path_, views).step, 1);
}

TEST_F(CheckpointTest, RemovesOlderOptimizerFilesOnly) {
  write_file(folder_.file("w.optim-3.safetensors"), "old");
  write_file(folder_.file("w.optim-3-1.safetensors"), "old");
  write_file(folder_.file("w.optim-4.safetensors.tmp"), "torn");
  write_file(folder_.file("w.optim-notes.safetensors"), "not ours");
  write_file(folder_.file("ww.optim-3.safetensors"), "of another");
  save(State(), 12);
  EXPECT_EQ(
      folder_.list(),
      "w.optim-12.safetensors w.optim-notes.safetensors w.safetensors ww.optim-3.safetensors ");
}

// A crash between the two renames must leave the old pair, also when both are of the same step.
TEST_F(CheckpointTest, NeverReplacesAnOptimizerFileInUse) {
  save(State(), 12);
  const std::string old_weights = read_file(path_);
  const std::string old_optimizer = read_file(folder_.file("w.optim-12.safetensors"));
  State other;
  other.momentum[0] = 99;
  std::filesystem::create_directory(path_ + ".tmp");  // the weights cannot be written
  EXPECT_THROW(save(other, 12), DafError);
  EXPECT_EQ(read_file(path_), old_weights);
  EXPECT_EQ(read_file(folder_.file("w.optim-12.safetensors")), old_optimizer);
  EXPECT_EQ(restore().momentum[0], 4);

  std::filesystem::remove(path_ + ".tmp");
  save(other, 12);
  EXPECT_EQ(restore().momentum[0], 99);
  EXPECT_EQ(folder_.list(), "w.optim-12-2.safetensors w.safetensors ");
}

TEST_F(CheckpointTest, FindsThePairAfterAMove) {
  save(State(), 12);
  std::filesystem::create_directory(folder_.file("moved"));
  for (const char* name : {"w.safetensors", "w.optim-12.safetensors"}) {
    std::filesystem::rename(folder_.file(name), folder_.file(std::string("moved/") + name));
  }
  path_ = folder_.file("moved/w.safetensors");
  EXPECT_EQ(restore().momentum[1], 5);
}

TEST_F(CheckpointTest, ListsWhatDoesNotMatch) {
  const float values[2] = {};
  const int64_t count = 0;
  const Metadata metadata = {
      {"format", "daf-checkpoint"}, {"schema", "1"}, {"step", "1"}, {"seed", "0"},
      {"program_sha256", ""},       {"model", ""}};
  const ConstTensorView weight = {{"l.weight", DType::kFloat32, {2}}, values};
  const ConstTensorView n = {{"n", DType::kInt64, {}}, &count};
  write_safetensors(path_, {weight, {{"other", DType::kFloat32, {2}}, values}}, metadata);
  expect_error("it is of another model; missing: n; not in the program: other; use the program");
  write_safetensors(path_, {{{"l.weight", DType::kFloat32, {1, 2}}, values}, n}, metadata);
  expect_error("'l.weight' must be float32[2], found float32[1, 2]");
  write_safetensors(path_, {{{"l.weight", DType::kInt32, {2}}, values}, n}, metadata);
  expect_error("'l.weight' must be float32[2], found int32[2]");
  write_safetensors(path_, {weight, n}, metadata);
  expect_error("its metadata has no 'optimizer_file'");
  write_safetensors(path_, {weight, n}, {});
  expect_error("its metadata has no 'format'; resume from a file that was written with --save");
  Metadata other = metadata;
  other["schema"] = "2";
  write_safetensors(path_, {weight, n}, other);
  expect_error("it is not a checkpoint of this version of daf");
  other = metadata;
  other["step"] = "1x";
  write_safetensors(path_, {weight, n}, other);
  expect_error("its metadata has step '1x', not a number");
}

TEST_F(CheckpointTest, RefusesATornPair) {
  expect_error("cannot resume from " + path_ + ": no such file");
  save(State(), 12);
  const std::string optimizer_path = folder_.file("w.optim-12.safetensors");
  const std::string optimizer = read_file(optimizer_path);
  write_file(optimizer_path, optimizer.substr(0, optimizer.size() - 1));
  expect_error("cannot resume from " + optimizer_path + ": it is truncated");
  std::filesystem::remove(optimizer_path);
  expect_error("cannot resume from " + optimizer_path +
               ": no such file; keep it beside the weights it was saved with");
  save(State(), 13);
  std::filesystem::rename(folder_.file("w.optim-13.safetensors"), folder_.file("kept"));
  save(State(), 12);
  std::filesystem::rename(folder_.file("kept"), optimizer_path);
  expect_error("its optimizer state w.optim-12.safetensors is of step 13, not 12");
}

TEST_F(CheckpointTest, LeavesTheStateAloneWhenItRefuses) {
  save(State(), 12);
  std::filesystem::remove(folder_.file("w.optim-12.safetensors"));
  State state;
  state.weight[0] = 77;
  EXPECT_THROW(restore_checkpoint(path_, state.views()), DafError);
  EXPECT_EQ(state.weight[0], 77);
}

TEST_F(CheckpointTest, SurvivesDamage) {
  save(State(), 12);
  expect_damage_is_refused<DafError>(read_file(path_), [&](const std::string& bytes) {
    write_file(path_, bytes);
    restore();
  });
}

}  // namespace
}  // namespace daf
