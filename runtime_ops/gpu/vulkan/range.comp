// The range of n values, or of n ranges: each workgroup takes a tile of them. With kAtomic all
// workgroups meet in ranges[0], which must be zero; otherwise each leaves its own, for another pass.
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef DAF_SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common.glsl"

layout(constant_id = 2) const bool kAtomic = false;
layout(constant_id = 3) const bool kOfRanges = false;

layout(set = 0, binding = 2) buffer Ranges { uint ranges[]; };

layout(push_constant) uniform Arguments {
  uint first;  // of the values
  uint n;
  uint tile;  // values per workgroup, a multiple of four
};

#ifdef DAF_SUBGROUPS
shared uvec2 meeting[kWorkgroup];  // no more subgroups than this

bool meet(inout uvec2 range) {
  range = subgroupMax(range);
  if (subgroupElect()) meeting[gl_SubgroupID] = range;
  barrier();
  if (gl_SubgroupID != 0) return false;
  range = uvec2(0);
  for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
    range = max(range, meeting[i]);
  }
  range = subgroupMax(range);
  return subgroupElect();
}
#else
shared uvec2 meeting[kWorkgroup];

// True in the one lane that has the range of all.
bool meet(inout uvec2 range) {
  const uint lane = gl_LocalInvocationID.x;
  meeting[lane] = range;
  for (uint half_size = kWorkgroup / 2; half_size > 0; half_size /= 2) {
    barrier();
    if (lane < half_size) meeting[lane] = max(meeting[lane], meeting[lane + half_size]);
  }
  range = meeting[lane];
  return lane == 0;
}
#endif

void main() {
  const uint lane = gl_LocalInvocationID.x;
  const uint begin = min(gl_WorkGroupID.x * tile, n), end = min(begin + tile, n);
  uvec2 range = uvec2(0);
  if (kOfRanges) {
    for (uint i = begin + lane; i < end; i += kWorkgroup) {
      range = max(range, uvec2(values[2 * (first + i)], values[2 * (first + i) + 1]));
    }
  } else {
    range = range_of_lane(first + begin, first + end, lane, kWorkgroup);
  }
  if (!meet(range)) return;
  if (kAtomic) {
    atomicMax(ranges[0], range.x);
    atomicMax(ranges[1], range.y);
  } else {
    ranges[2 * gl_WorkGroupID.x] = range.x;
    ranges[2 * gl_WorkGroupID.x + 1] = range.y;
  }
}
