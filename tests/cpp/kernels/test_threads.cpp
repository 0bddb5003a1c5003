// Results are the same to the bit whatever the number of threads.
#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>

#include "runtime_ops/kernels/thread_pool.h"
#include "tests/cpp/kernels/reference.h"

namespace daf::testing {
namespace {

class Threads : public ::testing::Test {
 protected:
  ~Threads() override { set_threads(before_); }

 private:
  int before_ = n_threads();
};

// `run` fills an output of n floats.
void expect_same(int64_t n, const std::function<void(float*)>& run) {
  set_threads(1);
  Floats expected = unset_floats(n);
  run(expected.data());
  for (const int threads : {2, 3, 5}) {
    set_threads(threads);
    Floats actual = unset_floats(n);
    run(actual.data());
    EXPECT_EQ(std::memcmp(actual.data(), expected.data(), expected.size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

TEST_F(Threads, MatrixProduct) {
  const Floats a = random_floats(210 * 700, 1), b = random_floats(700 * 330, 2);
  for (int flags = 0; flags < 4; ++flags) {
    const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
    const Gemm shape = {210, 330, 700, ta, tb, ta ? 210 : 700, tb ? 700 : 330, 330};
    expect_same(210 * 330, [&](float* c) {
      VectorScratch scratch;
      gemm(shape, a.data(), b.data(), {}, c, scratch);
      EXPECT_LE(scratch.size_bytes(), max_scratch_bytes());
    });
  }
}

TEST_F(Threads, BatchOfMatrixProducts) {
  const Floats a = random_floats(7 * 60 * 70, 1), b = random_floats(7 * 70 * 50, 2);
  const GemmBatch shape = {
      {60, 50, 70, false, false, 70, 50, 50}, 1, 7, {0, 60 * 70}, {0, 70 * 50}, {0, 60 * 50}};
  expect_same(7 * 60 * 50, [&](float* c) {
    VectorScratch scratch;
    batch_gemm(shape, a.data(), b.data(), 0.5f, c, scratch);
    EXPECT_LE(scratch.size_bytes(), max_scratch_bytes());
  });
}

void expect_same_convolution(const Conv2d& s) {
  const int64_t n_x = s.n * s.c_in * s.h * s.w, n_y = s.n * s.c_out * s.out_h * s.out_w;
  const int64_t n_weight = s.c_out * (s.c_in / s.groups) * s.kh * s.kw;
  const Floats x = random_floats(n_x, 1), y = random_floats(n_y, 2);
  const Floats weight = random_floats(n_weight, 3);
  const auto with_scratch = [](auto body) {
    return [=](float* out) {
      VectorScratch scratch;
      body(out, scratch);
      EXPECT_LE(scratch.size_bytes(), max_scratch_bytes());
    };
  };
  expect_same(n_y, with_scratch([&](float* out, Scratch& scratch) {
                conv2d(s, x.data(), weight.data(), nullptr, out, scratch);
              }));
  expect_same(n_x, with_scratch([&](float* out, Scratch& scratch) {
                conv2d_input_grad(s, y.data(), weight.data(), nullptr, out, scratch);
              }));
  expect_same(n_weight, with_scratch([&](float* out, Scratch& scratch) {
                conv2d_weight_grad(s, y.data(), x.data(), false, out, scratch);
              }));
}

TEST_F(Threads, Convolution) {
  expect_same_convolution({4, 32, 17, 16, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 17, 16});
  expect_same_convolution({4, 32, 16, 16, 40, 3, 3, 2, 2, 1, 1, 1, 1, 1, 8, 8});
  expect_same_convolution({4, 64, 16, 16, 64, 1, 1, 1, 1, 0, 0, 1, 1, 2, 16, 16});
}

TEST_F(Threads, DepthwiseConvolution) {
  expect_same_convolution({9, 6, 6, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 6, 6, 6});
  expect_same_convolution({3, 6, 40, 40, 6, 3, 3, 2, 2, 1, 1, 1, 1, 6, 20, 20});
}

TEST_F(Threads, Normalization) {
  const int64_t n = 4 * 24 * 1100;
  const Floats x = random_floats(n, 1), g = random_floats(n, 2), w = random_floats(1100, 3);
  Floats a(24 * 4), b(24 * 4), c(1100), d(1100);
  expect_same(n, [&](float* y) {
    batch_norm_train({4, 24, 1100, 1e-5f}, x.data(), w.data(), w.data(), nullptr, nullptr, 0.1f, y,
                     a.data(), b.data(), c.data(), d.data());
  });
  expect_same(n, [&](float* y) {
    batch_norm_backward({4, 24, 1100, 1e-5f}, true, g.data(), nullptr, x.data(), w.data(), a.data(),
                        b.data(), y, c.data(), d.data());
  });
  expect_same(n, [&](float* y) {
    layer_norm({96, 1100, 1e-5f}, x.data(), w.data(), w.data(), y, a.data(), b.data());
  });
  expect_same(n, [&](float* y) {
    layer_norm_backward({96, 1100, 1e-5f}, g.data(), x.data(), w.data(), a.data(), b.data(), y,
                        c.data(), d.data());
  });
  expect_same(1100, [&](float* grad_weight) {
    layer_norm_backward({96, 1100, 1e-5f}, g.data(), x.data(), w.data(), a.data(), b.data(),
                        nullptr, grad_weight, d.data());
  });
  expect_same(n, [&](float* y) {
    group_norm({4, 24, 1100, 6, 1e-5f}, x.data(), w.data(), w.data(), y, a.data(), b.data());
  });
}

TEST_F(Threads, ElementsRowsAndSums) {
  const int64_t n = 100 * 1013;
  const Floats x = random_floats(n, 1), g = random_floats(n, 2);
  expect_same(n, [&](float* y) { activation(Activation::kGelu, 0, 0, n, x.data(), y); });
  expect_same(
      n, [&](float* y) { activation_backward(Activation::kSilu, 0, 0, n, g.data(), x.data(), y); });
  expect_same(n, [&](float* y) { softmax({100, 1013, 1, true}, x.data(), y); });
  expect_same(n, [&](float* y) { softmax({1, 100, 1013, false}, x.data(), y); });
  expect_same(n, [&](float* y) { dropout({0.3f, 1, 2, 3}, 0, n, x.data(), y); });
  const int64_t sizes[] = {100, 1013}, rows[] = {1013, 1}, row[] = {0, 1}, turned[] = {1, 100};
  expect_same(n, [&](float* y) {
    arithmetic(Arithmetic::kAdd, 2, sizes, rows, row, x.data(), g.data(), y);
  });
  expect_same(n, [&](float* y) { masked_softmax(2, sizes, row, x.data(), g.data(), y); });
  expect_same(n, [&](float* y) { strided_copy(2, sizes, turned, x.data(), y); });
  expect_same(1013, [&](float* y) { sum_axes(2, sizes, 1, 1, x.data(), y); });
  expect_same(100, [&](float* y) { sum_axes(2, sizes, 2, 1, x.data(), y); });
  expect_same(n, [&](float* weight) {
    Floats average(n), square(n);
    std::copy(x.begin(), x.end(), weight);
    adamw({0.1f, 0.9, 0.999, 1e-8f, 0.1f, 0}, n, g.data(), weight, average.data(), square.data());
  });
}

TEST_F(Threads, EveryTaskRunsOnceAndNoWorkerTwiceAtATime) {
  struct Context {
    std::vector<int> count = std::vector<int>(10000);
    std::vector<int64_t> of_worker = std::vector<int64_t>(5);
  } context;
  set_threads(5);
  for (int repeat = 0; repeat < 20; ++repeat) {
    run_tasks(
        10000,
        [](void* c, int64_t task, int worker) {
          ++static_cast<Context*>(c)->count[task];
          ++static_cast<Context*>(c)->of_worker[worker];  // a data race if it were shared
        },
        &context);
  }
  for (const int n : context.count) ASSERT_EQ(n, 20);
  int64_t total = 0;
  for (const int64_t n : context.of_worker) total += n;
  EXPECT_EQ(total, 200000);
}

TEST_F(Threads, NestedAndConcurrentCallsAreDone) {
  set_threads(3);
  const auto count = [](int64_t* sum) {
    run_tasks(
        50,
        [](void* c, int64_t, int) {
          int64_t inner = 0;  // of this task alone
          run_tasks(10, [](void* i, int64_t, int) { ++*static_cast<int64_t*>(i); }, &inner);
          __atomic_fetch_add(static_cast<int64_t*>(c), inner, __ATOMIC_RELAXED);
        },
        sum);
  };
  int64_t here = 0, there = 0;
  std::thread other([&] { count(&there); });
  count(&here);
  other.join();
  EXPECT_EQ(here, 500);
  EXPECT_EQ(there, 500);
}

TEST_F(Threads, BadNumbersAreRefused) {
  for (const int n : {0, -1, 257}) EXPECT_THROW(set_threads(n), std::invalid_argument) << n;
}

}  // namespace
}  // namespace daf::testing
