// Values of bit-planes (kernels.h): one lane per value; 32 lanes read the same word of a plane.
// Products of a scale and a code, with noise or without, are exact, so a fused multiply-add gives
// the same bits.
#version 450

layout(constant_id = 0) const uint kWorkgroup = 256;
layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Words { uint words[]; };
// Of each piece: where in `words` its first header and its planes are.
layout(set = 0, binding = 1) readonly buffer Places { uint places[]; };
layout(set = 0, binding = 2) writeonly buffer Decoded { float decoded[]; };

layout(push_constant) uniform Arguments {
  uint first;       // value wanted
  uint n;           // values wanted
  uint first_out;   // in `decoded`
  uint n_planes;    // that are read
  uint n_missing;   // planes that were made and are not read
  uint groups_per_piece;
  uint is_dithered;
  uint noise_base;
};

const uint kNoiseSteps[8] = uint[8](75, 97, 101, 107, 149, 155, 159, 181);

// plane_noise.h says the same.
uint noise_of(uint group, uint in_group) {
  uint v = noise_base + group * 0x9e3779b9u;
  v = (v ^ v >> 16) * 0x7feb352du;
  v = (v ^ v >> 15) * 0x846ca68bu;
  v ^= v >> 16;
  return ((v >> 24) + in_group) * kNoiseSteps[v >> 21 & 7u] & 255u;
}

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * kWorkgroup) {
    const uint value = first + i, group = value / 256, in_group = value % 256;
    const uint piece = group / groups_per_piece, in_piece = group % groups_per_piece;
    const uint place = piece * (1 + n_planes);
    const uint header = words[places[place] + in_piece];
    const uint word = in_piece * 8 + in_group / 32;
    uint code = 0;
    for (uint p = 1; p <= n_planes; ++p) {
      code = 2 * code + (words[places[place + p] + word] >> (in_group % 32) & 1);
    }
    const float scale = uintBitsToFloat(header & 0xffff0000u);
    const float width = float(1u << n_missing);
    const float minimum = uintBitsToFloat(header << 16), middle = (width - 1) * 0.5;
    if (is_dithered != 0) {
      const uint fixed_code = code << (n_missing + 8) | (255u - noise_of(group, in_group));
      const float base = minimum + scale * (middle - 127.5 / 256.0);
      decoded[first_out + i] = base + scale * (1.0 / 256.0) * float(fixed_code);
    } else {
      const float base = minimum + scale * middle;
      decoded[first_out + i] = base + scale * width * float(code);
    }
  }
}
