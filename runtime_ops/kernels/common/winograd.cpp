// Convolution by Winograd's transforms (winograd_transforms.h): tiles of 4 x 4 places of the
// result, and the patches of 6 x 6 that they see.
#include "runtime_ops/kernels/common/winograd.h"

#include <algorithm>
#include <cstring>

#include "runtime_ops/kernels/common/winograd_product.h"

namespace daf::DAF_ISA {
namespace winograd {
namespace {

constexpr int kTaps = kFilter * kFilter;
static_assert(kTaps % kWidth == 1, "the last tap goes alone, the others in whole vectors");

// The tiles of all maps of a batch, in rows from left to right.
struct Tiles {
  int64_t height, width;  // of the tiled map
  int64_t n_down, n_across;

  Tiles(int64_t height, int64_t width)
      : height(height),
        width(width),
        n_down((height + kTile - 1) / kTile),
        n_across((width + kTile - 1) / kTile) {}
  int64_t of_map() const { return n_down * n_across; }

  struct Place {
    int64_t image, h, w;  // of the first place of a tile
  };
  Place at(int64_t tile) const {
    const int64_t row = tile / n_across;
    return {row / n_down, row % n_down * kTile, tile % n_across * kTile};
  }
};

// A window of kSize x kSize of a map; what lies beyond the map is 0.
template <int kSize>
struct Window {
  static constexpr int kParts = (kSize + kWidth - 1) / kWidth;
  static constexpr int64_t kOutside = INT64_MIN;
  int64_t row[kSize];  // offset of its first column, or kOutside
  bool is_whole[kParts];
  IntVec mask[kParts];

  Window() {}
  // Nothing but zeros without a map.
  Window(bool has_map, int64_t map_offset, int64_t h0, int64_t w0, int64_t height, int64_t width) {
    for (int r = 0; r < kSize; ++r) {
      const int64_t h = h0 + r;
      row[r] = has_map && h >= 0 && h < height ? map_offset + h * width + w0 : kOutside;
    }
    for (int part = 0; part < kParts; ++part) {
      const int64_t first = part * kWidth;
      is_whole[part] = w0 + first >= 0 && w0 + first + kWidth <= width;
      for (int i = 0; i < kWidth; ++i) {
        const int64_t w = w0 + first + i;
        mask[part][i] = first + i < kSize && w >= 0 && w < width ? -1 : 0;
      }
    }
  }

  Vec load_part_of_row(const float* x, int r, int part) const {
    if (row[r] == kOutside) return Vec{};
    const float* from = x + row[r] + part * kWidth;
    return is_whole[part] ? load(from) : load_masked(from, mask[part]);
  }
};

// columns[j]: element j of each lane's row. lane(l, part) gives kWidth elements of it.
template <int kColumns, class Lane>
inline __attribute__((always_inline)) void load_columns(Lane lane, Vec (&columns)[kColumns]) {
  for (int part = 0; part * kWidth < kColumns; ++part) {
    Vec square[kWidth];
    for (int l = 0; l < kWidth; ++l) square[l] = lane(l, part);
    transpose(square);
    for (int j = 0; j < kWidth && part * kWidth + j < kColumns; ++j) {
      columns[part * kWidth + j] = square[j];
    }
  }
}

// A tensor [n, channels, height, width] of whose maps patches are read.
struct Maps {
  const float* x;
  int64_t channels, height, width;

  int64_t spatial() const { return height * width; }
};

// Patches as columns = tiles, k = channels.
struct PatchesByTile {
  Maps maps;
  Tiles tiles;
  int64_t pad_h, pad_w;

  void operator()(int64_t first, int64_t count, int64_t k0, int64_t depth, float* block,
                  int64_t position_step) const {
    for (int64_t i = 0; i < count; i += kNr, block += kNr * depth) {
      Window<kPatch> windows[kNr];
      for (int l = 0; l < kNr; ++l) {
        const auto [image, h, w] = tiles.at(first + i + l);
        windows[l] = {i + l < count, image * maps.channels * maps.spatial(),
                      h - pad_h,     w - pad_w,
                      maps.height,   maps.width};
      }
      for (int64_t k = 0; k < depth; ++k) {
        const float* map = maps.x + (k0 + k) * maps.spatial();
        for (int lane = 0; lane < kNr; lane += kWidth) {
          float* out = block + k * kNr + lane;
          apply<PatchTransform>(
              [&](int r, Vec(&row)[kPatch]) {
                load_columns(
                    [&](int l, int part) {
                      return windows[lane + l].load_part_of_row(map, r, part);
                    },
                    row);
              },
              [&](int r, int c, Vec v) { store(out + (r * kPatch + c) * position_step, v); });
        }
      }
    }
  }
};

// Patches, or tiles, as rows or columns = channels, k = tiles; kSize channels in a panel.
template <class Transform, int kSize>
struct WindowsByChannel {
  Maps maps;
  Tiles tiles;
  int64_t pad_h, pad_w;

  void operator()(int64_t first, int64_t count, int64_t k0, int64_t depth, float* block,
                  int64_t position_step) const {
    constexpr int kIn = Transform::kIn, kOut = Transform::kOut;
    for (int64_t i = 0; i < count; i += kSize, block += kSize * depth) {
      for (int64_t k = 0; k < depth; ++k) {
        const auto [image, h, w] = tiles.at(k0 + k);
        const Window<kIn> window(true, image * maps.channels * maps.spatial(), h - pad_h, w - pad_w,
                                 maps.height, maps.width);
        for (int lane = 0; lane < kSize; lane += kWidth) {
          const float* map[kWidth];  // beyond `count` the last one again
          for (int l = 0; l < kWidth; ++l) {
            map[l] = maps.x + (first + std::min(i + lane + l, count - 1)) * maps.spatial();
          }
          float* out = block + k * kSize + lane;
          apply<Transform>(
              [&](int r, Vec(&row)[kIn]) {
                load_columns(
                    [&](int l, int part) { return window.load_part_of_row(map[l], r, part); }, row);
              },
              [&](int r, int c, Vec v) { store(out + (r * kOut + c) * position_step, v); });
        }
      }
    }
  }
};

// Filters as rows. Taps lie behind each other; backwards for the gradient of the input.
struct Filters {
  const float* weight;
  int64_t row_stride, depth_stride;
  bool backwards;

  void operator()(int64_t first, int64_t count, int64_t k0, int64_t depth, float* block,
                  int64_t position_step) const {
    for (int64_t i = 0; i < count; i += kMr, block += kMr * depth) {
      for (int64_t k = 0; k < depth; ++k) {
        for (int lane = 0; lane < kMr; lane += kWidth) {
          const float* filter[kWidth];  // beyond `count` the last one again
          for (int l = 0; l < kWidth; ++l) {
            filter[l] = weight + (first + std::min(i + lane + l, count - 1)) * row_stride +
                        (k0 + k) * depth_stride;
          }
          Vec taps[kTaps], most[kTaps - 1];
          load_columns([&](int l, int part) { return load(filter[l] + part * kWidth); }, most);
          std::copy_n(most, kTaps - 1, taps);
          for (int l = 0; l < kWidth; ++l) taps[kTaps - 1][l] = filter[l][kTaps - 1];
          float* out = block + k * kMr + lane;
          apply<FilterTransform>(
              [&](int r, Vec(&row)[kFilter]) {
                for (int c = 0; c < kFilter; ++c) {
                  const int tap = r * kFilter + c;
                  row[c] = taps[backwards ? kTaps - 1 - tap : tap];
                }
              },
              [&](int r, int c, Vec v) { store(out + (r * kPatch + c) * position_step, v); });
        }
      }
    }
  }
};

// A lane of a finished tile of C: element (r, c) of its patch.
inline Vec position(const float* tile, int row, int lane, int r, int c) {
  return load(tile + (r * kPatch + c) * kTileFloats + row * kNr + lane);
}

// C[channel, tile] into maps.
struct MapsWriter {
  float* y;
  int64_t channels;
  Tiles tiles;
  const float* bias;  // or null

  void operator()(int64_t i, int64_t rows, int64_t j, int64_t columns, const float* tile) const {
    constexpr int kRowsAtOnce = kWidth / kTile;
    static_assert(kWidth % kTile == 0, "a transposed vector is whole rows of a tile");
    const int64_t spatial = tiles.height * tiles.width;
    for (int lane = 0; lane < columns; lane += kWidth) {
      struct Target {
        float* first;  // in the map of channel i
        int64_t height, width;
      };
      Target targets[kWidth];
      const int n_lanes = static_cast<int>(std::min<int64_t>(kWidth, columns - lane));
      for (int l = 0; l < n_lanes; ++l) {
        const auto [image, h, w] = tiles.at(j + lane + l);
        targets[l] = {y + (image * channels + i) * spatial + h * tiles.width + w,
                      std::min<int64_t>(kTile, tiles.height - h),
                      std::min<int64_t>(kTile, tiles.width - w)};
      }
      for (int row = 0; row < rows; ++row) {
        const Vec shift = splat(bias != nullptr ? bias[i + row] : 0.0f);
        Vec out[kTile * kTile];
        apply<OutputTransform>(
            [&](int r, Vec(&x)[kPatch]) {
              for (int c = 0; c < kPatch; ++c) x[c] = position(tile, row, lane, r, c);
            },
            [&](int r, int c, Vec v) { out[r * kTile + c] = v + shift; });
        for (int r = 0; r < kTile; r += kRowsAtOnce) {
          Vec square[kWidth];
          std::copy_n(out + r * kTile, kWidth, square);
          transpose(square);
          for (int l = 0; l < n_lanes; ++l) {
            const auto& [first, height, width] = targets[l];
            float values[kWidth];
            store(values, square[l]);
            for (int part = 0; part < kRowsAtOnce && r + part < height; ++part) {
              float* to = first + row * spatial + (r + part) * tiles.width;
              if (width == kTile) {
                std::memcpy(to, values + part * kTile, kTile * sizeof(float));
              } else {
                std::copy_n(values + part * kTile, width, to);
              }
            }
          }
        }
      }
    }
  }
};

// C[channel out, channel in] into the gradients of filters.
struct FiltersWriter {
  float* grad_weight;
  int64_t row_stride;
  bool accumulate;

  void operator()(int64_t i, int64_t rows, int64_t j, int64_t columns, const float* tile) const {
    for (int row = 0; row < rows; ++row) {
      float* out = grad_weight + (i + row) * row_stride + j * kTaps;
      for (int lane = 0; lane < columns; lane += kWidth) {
        Vec taps[kTaps];
        apply<FilterGradient>(
            [&](int r, Vec(&x)[kPatch]) {
              for (int c = 0; c < kPatch; ++c) x[c] = position(tile, row, lane, r, c);
            },
            [&](int r, int c, Vec v) { taps[r * kFilter + c] = v; });
        const int n_lanes = static_cast<int>(std::min<int64_t>(kWidth, columns - lane));
        for (int t = 0; t + kWidth <= kTaps; t += kWidth) {
          Vec square[kWidth];
          std::copy_n(taps + t, kWidth, square);
          transpose(square);
          for (int l = 0; l < n_lanes; ++l) {
            float* to = out + l * kTaps + t;
            store(to, accumulate ? load(to) + square[l] : square[l]);
          }
        }
        for (int l = 0; l < n_lanes; ++l, out += kTaps) {
          out[kTaps - 1] = (accumulate ? out[kTaps - 1] : 0.0f) + taps[kTaps - 1][l];
        }
      }
    }
  }
};

}  // namespace
}  // namespace winograd

using namespace winograd;

bool winograd_pays(const Conv2d& s, Pass pass) {
  constexpr int64_t kMinChannels = 16;
  if (s.kh != kFilter || s.kw != kFilter || s.stride_h != 1 || s.stride_w != 1 ||
      s.dilation_h != 1 || s.dilation_w != 1 || s.groups != 1) {
    return false;
  }
  if (s.c_in < kMinChannels || s.c_out < kMinChannels) return false;
  // Few tiles are not worth the transforms of all filters, and would not fill a panel.
  const int64_t height = pass == Pass::kInputGrad ? s.h : s.out_h;
  const int64_t width = pass == Pass::kInputGrad ? s.w : s.out_w;
  const int64_t of_map = Tiles(height, width).of_map();
  if (s.n * of_map < (pass == Pass::kWeightGrad ? 4 : kNr / 2)) return false;
  // Tiles at the edges of a map are computed as whole ones: 36 products each, instead of 9 a place.
  return 2 * of_map * kPositions <= height * width * kTaps;
}

void winograd_conv2d(const Conv2d& s, const float* x, const float* weight, const float* bias,
                     float* y, Scratch& scratch) {
  const Tiles tiles(s.out_h, s.out_w);
  const Filters filters{weight, s.c_in * kTaps, kTaps, false};
  const PatchesByTile patches{{x, s.c_in, s.h, s.w}, tiles, s.pad_h, s.pad_w};
  const MapsWriter write{y, s.c_out, tiles, bias};
  multiply(Product(s.c_out, s.n * tiles.of_map(), s.c_in), filters, patches, write, scratch);
}

void winograd_conv2d_input_grad(const Conv2d& s, const float* grad_y, const float* weight,
                                const float* bias, float* grad_x, Scratch& scratch) {
  const Tiles tiles(s.h, s.w);
  const Filters filters{weight, kTaps, s.c_in * kTaps, true};
  const PatchesByTile patches{
      {grad_y, s.c_out, s.out_h, s.out_w}, tiles, kFilter - 1 - s.pad_h, kFilter - 1 - s.pad_w};
  const MapsWriter write{grad_x, s.c_in, tiles, bias};
  multiply(Product(s.c_in, s.n * tiles.of_map(), s.c_out), filters, patches, write, scratch);
}

void winograd_conv2d_weight_grad(const Conv2d& s, const float* grad_y, const float* x,
                                 bool accumulate, float* grad_weight, Scratch& scratch) {
  const Tiles tiles(s.out_h, s.out_w);
  const WindowsByChannel<TileTransform, kMr> grads{
      {grad_y, s.c_out, s.out_h, s.out_w}, tiles, 0, 0};
  const WindowsByChannel<PatchTransform, kNr> patches{
      {x, s.c_in, s.h, s.w}, tiles, s.pad_h, s.pad_w};
  const FiltersWriter write{grad_weight, s.c_in * kTaps, accumulate};
  multiply(Product(s.c_out, s.c_in, s.n * tiles.of_map()), grads, patches, write, scratch);
}

}  // namespace daf::DAF_ISA
