// What the shaders share. A range is (~key(smallest), key(largest)), see OrderedRange in kernels.h:
// only maxima of integers are ever taken, so that all devices agree on every bit.
layout(constant_id = 0) const uint kWorkgroup = 256;  // a power of two
layout(constant_id = 1) const bool kVec4 = false;     // four values per load
layout(local_size_x_id = 0) in;

// The same memory twice: as values, and as groups of four.
layout(set = 0, binding = 0) readonly buffer Values { uint values[]; };
layout(set = 0, binding = 1) readonly buffer Values4 { uvec4 values4[]; };

uvec2 range_of(uint bits) {
  const uint key = bits ^ (uint(int(bits) >> 31) | 0x80000000u);
  return uvec2(~key, key);
}

uvec2 range_of(uvec4 bits) {
  return max(max(range_of(bits.x), range_of(bits.y)), max(range_of(bits.z), range_of(bits.w)));
}

// Of the values [begin, end) those that are `lane`'s, one of n_lanes. With kVec4 begin must be a
// multiple of four.
uvec2 range_of_lane(uint begin, uint end, uint lane, uint n_lanes) {
  uvec2 range = uvec2(0);
  if (kVec4) {
    const uint end4 = end & ~3u;
    for (uint i = begin / 4 + lane; i < end4 / 4; i += n_lanes) {
      range = max(range, range_of(values4[i]));
    }
    begin = max(begin, end4);
  }
  for (uint i = begin + lane; i < end; i += n_lanes) range = max(range, range_of(values[i]));
  return range;
}
