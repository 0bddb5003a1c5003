// The range of each group of `group_size` values. Groups are small: a workgroup takes many, with
// kLanes lanes, or one subgroup, for each.
#version 450
#extension GL_GOOGLE_include_directive : require
#ifdef DAF_SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common.glsl"

layout(constant_id = 2) const uint kLanes = 32;  // a power of two, at most kWorkgroup

layout(set = 0, binding = 2) writeonly buffer Ranges { uint ranges[]; };

layout(push_constant) uniform Arguments {
  uint first;  // of the values
  uint n;
  uint group_size;
  uint n_groups;
};

void write(uint group, uvec2 range) {
  ranges[2 * group] = range.x;
  ranges[2 * group + 1] = range.y;
}

uvec2 range_of_lane_of_group(uint group, uint lane, uint n_lanes) {
  if (group >= n_groups) return uvec2(0);
  const uint begin = group * group_size, end = min(begin + group_size, n);
  return range_of_lane(first + begin, first + end, lane, n_lanes);
}

#ifdef DAF_SUBGROUPS
void main() {
  const uint step = gl_NumWorkGroups.x * gl_NumSubgroups;
  for (uint group = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID; group < n_groups;
       group += step) {
    const uvec2 range =
        subgroupMax(range_of_lane_of_group(group, gl_SubgroupInvocationID, gl_SubgroupSize));
    if (subgroupElect()) write(group, range);
  }
}
#else
shared uvec2 meeting[kWorkgroup];

void main() {
  const uint lane = gl_LocalInvocationID.x, lane_of_group = lane % kLanes;
  const uint groups_at_once = kWorkgroup / kLanes;
  // All lanes go round equally often: there are barriers inside.
  for (uint base = gl_WorkGroupID.x * groups_at_once; base < n_groups;
       base += gl_NumWorkGroups.x * groups_at_once) {
    const uint group = base + lane / kLanes;
    uvec2 range = range_of_lane_of_group(group, lane_of_group, kLanes);
    if (kLanes > 1) {
      meeting[lane] = range;
      for (uint half_size = kLanes / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (lane_of_group < half_size) {
          meeting[lane] = max(meeting[lane], meeting[lane + half_size]);
        }
      }
      range = meeting[lane];
      barrier();
    }
    if (lane_of_group == 0 && group < n_groups) write(group, range);
  }
}
#endif
