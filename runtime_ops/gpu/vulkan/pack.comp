// Quantizes values and packs them to bit-planes, as scalar/plane_group.h says: one lane per value,
// a ballot per plane. Headers are the host's: a division may be inexact here.
#version 450
#extension GL_KHR_shader_subgroup_ballot : require

layout(constant_id = 0) const uint kWorkgroup = 256;  // a multiple of 32
layout(local_size_x_id = 0) in;

layout(set = 0, binding = 0) readonly buffer Values { float values[]; };
// Of each group its GroupCode (kernels.h), then, of each piece, where in `words` its planes are.
layout(set = 0, binding = 1) readonly buffer Tables { uint tables[]; };
layout(set = 0, binding = 2) writeonly buffer Words { uint words[]; };

layout(push_constant) uniform Arguments {
  uint first;  // of the values
  uint n;
  uint n_groups;
  uint bits;
  uint groups_per_piece;
};

shared uint meeting[2 * kWorkgroup];  // ballots of subgroups of four lanes or more, for eight planes

// Of value `bit` of word `word` of a group.
uint code_of(uint group, uint word, uint bit) {
  const float minimum = uintBitsToFloat(tables[4 * group]);
  const float inverse = uintBitsToFloat(tables[4 * group + 1]);
  if (inverse < 0) return 0;  // the group is kept exact
  uint at = group * 256 + word * 32 + bit;
  if (at >= n) at = group * 256;  // as the host pads the last group
  precise const float scaled = (values[first + at] - minimum) * inverse;
  const uint noise = (tables[4 * group + 2] + word * 32 + bit) * tables[4 * group + 3] & 255u;
  return min((uint(int(roundEven(scaled))) + noise) >> 8, (1u << bits) - 1);
}

void write(uint plane, uint word, uint value) {
  const uint group = word / 8, piece = group / groups_per_piece;
  const uint place = tables[4 * n_groups + piece * bits + plane];
  words[place + group % groups_per_piece * 8 + word % 8] = value;
}

void main() {
  const uint lane = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  const uint n_words = 8 * n_groups, words_at_once = kWorkgroup / 32;
  // All lanes go round equally often: there are barriers inside.
  for (uint base = gl_WorkGroupID.x * words_at_once; base < n_words;
       base += gl_NumWorkGroups.x * words_at_once) {
    const uint word = base + lane / 32;
    const uint code = word < n_words ? code_of(word / 8, word % 8, lane % 32) : 0;
    for (uint plane = 0; plane < bits; ++plane) {
      const uvec4 ballot = subgroupBallot((code >> (bits - 1 - plane) & 1) != 0);
      if (gl_SubgroupSize < 32) {
        if (subgroupElect()) meeting[plane * gl_NumSubgroups + gl_SubgroupID] = ballot.x;
      } else if (lane % 32 == 0 && word < n_words) {
        write(plane, word, ballot[gl_SubgroupInvocationID / 32]);
      }
    }
    if (gl_SubgroupSize >= 32) continue;
    barrier();
    const uint parts = 32 / gl_SubgroupSize;  // of a word
    for (uint i = lane; i < bits * words_at_once; i += kWorkgroup) {
      const uint plane = i / words_at_once, in_base = i % words_at_once;
      uint value = 0;
      for (uint part = 0; part < parts; ++part) {
        value |= meeting[plane * gl_NumSubgroups + in_base * parts + part]
                 << (part * gl_SubgroupSize);
      }
      if (base + in_base < n_words) write(plane, base + in_base, value);
    }
    barrier();
  }
}
