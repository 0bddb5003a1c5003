// What vulkan/*.comp compute, in OpenCL C 1.2. Variants are defines:
//   WORKGROUP   work-items of a workgroup, a power of two
//   VEC4        four values per load
//   ATOMIC, OF_RANGES    of range()
//   LANES       of ranges(): work-items per group of values, a power of two
//   NO_BARRIERS          for the test that a race is seen
#ifdef NO_BARRIERS
#define BARRIER()
#else
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#endif

// (~key(smallest), key(largest)), see OrderedRange in kernels.h.
uint2 range_of(uint bits) {
  const uint key = bits ^ ((uint)((int)bits >> 31) | 0x80000000u);
  return (uint2)(~key, key);
}

uint2 range_of_four(uint4 bits) {
  return max(max(range_of(bits.x), range_of(bits.y)), max(range_of(bits.z), range_of(bits.w)));
}

// Of the values [begin, end) those that are `lane`'s, one of n_lanes. With VEC4 begin must be a
// multiple of four.
uint2 range_of_lane(global const uint* values, uint begin, uint end, uint lane, uint n_lanes) {
  uint2 range = (uint2)(0, 0);
#ifdef VEC4
  const uint end4 = end & ~3u;
  for (uint i = begin / 4 + lane; i < end4 / 4; i += n_lanes) {
    range = max(range, range_of_four(vload4(i, values)));
  }
  begin = max(begin, end4);
#endif
  for (uint i = begin + lane; i < end; i += n_lanes) range = max(range, range_of(values[i]));
  return range;
}

kernel __attribute__((reqd_work_group_size(WORKGROUP, 1, 1))) void range(
    global const uint* values, uint first, uint n, uint tile, global uint* ranges, uint first_range) {
  local uint2 meeting[WORKGROUP];
  const uint lane = get_local_id(0), group = get_group_id(0);
  const uint begin = min(group * tile, n), end = min(begin + tile, n);
#ifdef OF_RANGES
  uint2 range = (uint2)(0, 0);
  for (uint i = begin + lane; i < end; i += WORKGROUP) {
    range = max(range, vload2(first + i, values));
  }
  meeting[lane] = range;
#else
  meeting[lane] = range_of_lane(values, first + begin, first + end, lane, WORKGROUP);
#endif
  for (uint half_size = WORKGROUP / 2; half_size > 0; half_size /= 2) {
    BARRIER();
    if (lane < half_size) meeting[lane] = max(meeting[lane], meeting[lane + half_size]);
  }
  if (lane != 0) return;
#ifdef ATOMIC
  atomic_max(ranges + 2 * first_range, meeting[0].x);
  atomic_max(ranges + 2 * first_range + 1, meeting[0].y);
#else
  vstore2(meeting[0], first_range + group, ranges);
#endif
}

kernel __attribute__((reqd_work_group_size(WORKGROUP, 1, 1))) void ranges(
    global const uint* values, uint first, uint n, uint group_size, uint n_groups,
    global uint* ranges) {
  local uint2 meeting[WORKGROUP];
  const uint lane = get_local_id(0), lane_of_group = lane % LANES;
  const uint groups_at_once = WORKGROUP / LANES;
  // All lanes go round equally often: there are barriers inside.
  for (uint base = get_group_id(0) * groups_at_once; base < n_groups;
       base += get_num_groups(0) * groups_at_once) {
    const uint group = base + lane / LANES;
    uint2 range = (uint2)(0, 0);
    if (group < n_groups) {
      const uint begin = group * group_size, end = min(begin + group_size, n);
      range = range_of_lane(values, first + begin, first + end, lane_of_group, LANES);
    }
    meeting[lane] = range;
    for (uint half_size = LANES / 2; half_size > 0; half_size /= 2) {
      BARRIER();
      if (lane_of_group < half_size) {
        meeting[lane] = max(meeting[lane], meeting[lane + half_size]);
      }
    }
    if (lane_of_group == 0 && group < n_groups) vstore2(meeting[lane], group, ranges);
    BARRIER();
  }
}

constant uint kNoiseSteps[8] = {75, 97, 101, 107, 149, 155, 159, 181};

// plane_noise.h says the same.
uint noise_of(uint noise_base, uint group, uint in_group) {
  uint v = noise_base + group * 0x9e3779b9u;
  v = (v ^ v >> 16) * 0x7feb352du;
  v = (v ^ v >> 15) * 0x846ca68bu;
  v ^= v >> 16;
  return ((v >> 24) + in_group) * kNoiseSteps[v >> 21 & 7u] & 255u;
}

// A product of a scale and a code, with noise or without, is exact, so it does not matter whether it
// is fused.
kernel __attribute__((reqd_work_group_size(WORKGROUP, 1, 1))) void decode(
    global const uint* words, global const uint* places, global float* decoded, uint first, uint n,
    uint first_out, uint n_planes, uint n_missing, uint groups_per_piece, uint is_dithered,
    uint noise_base) {
  for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
    const uint value = first + i, group = value / 256, in_group = value % 256;
    const uint piece = group / groups_per_piece, in_piece = group % groups_per_piece;
    const uint place = piece * (1 + n_planes);
    const uint header = words[places[place] + in_piece];
    const uint word = in_piece * 8 + in_group / 32;
    uint code = 0;
    for (uint p = 1; p <= n_planes; ++p) {
      code = 2 * code + (words[places[place + p] + word] >> (in_group % 32) & 1);
    }
    const float scale = as_float(header & 0xffff0000u);
    const float width = (float)(1u << n_missing);
    const float minimum = as_float(header << 16), middle = (width - 1) * 0.5f;
    if (is_dithered != 0) {
      const uint fixed_code =
          code << (n_missing + 8) | (255u - noise_of(noise_base, group, in_group));
      const float base = minimum + scale * (middle - 127.5f / 256);
      decoded[first_out + i] = base + scale * (1.0f / 256) * (float)fixed_code;
    } else {
      const float base = minimum + scale * middle;
      decoded[first_out + i] = base + scale * width * (float)code;
    }
  }
}
