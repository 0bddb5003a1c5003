#!/bin/sh
# Estimates, without an ARM processor, how busy the NEON micro-kernel keeps the multiply-add units: cuts its loop out of
# the compiled code and gives it to llvm-mca. Needs g++-aarch64-linux-gnu and llvm (Debian).
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/tile.cpp" <<'END'
#include "runtime_ops/kernels/common/isa.h"
#include "runtime_ops/kernels/neon/micro_kernel.h"
using namespace daf::neon;
void tile(int64_t depth, const float* a, const float* b, float* out) {
  constexpr int kVecs = MicroKernel::kNr / kWidth;
  Vec sum[MicroKernel::kMr][kVecs];
  MicroKernel::run<MicroKernel::kMr, kVecs>(depth, a, b, sum);
  for (auto& row : sum) {
    for (Vec v : row) store(out, v), out += kWidth;
  }
}
END
aarch64-linux-gnu-g++ -std=c++17 -O3 -I. -DDAF_ISA=neon -DDAF_ISA_neon -S -o "$folder/tile.s" "$folder/tile.cpp"
# The loop is what lies between the last label before the first fmla and the branch after the last one.
awk '/^\.L[0-9]+:/ {n = 0} {line[++n] = $0} /fmla/ {seen = 1}
     seen && /\tb(ne|\.)/ {for (i = 1; i <= n; ++i) print line[i]; exit}' "$folder/tile.s" >"$folder/loop.s"
n_fmla=$(grep -c fmla "$folder/loop.s")

# LLVM 14 has no model of its own for cortex-a76 and takes that of cortex-a57, whose two units are 64 bits wide: an FMLA
# of 128 bits occupies both for a cycle. tsv110 has two of 128 bits and dispatches four instructions, as cortex-a76 does.
for cpu in "cortex-a76 1" "tsv110 2"; do
  set -- $cpu
  cycles=$(llvm-mca -march=aarch64 -mcpu="$1" -iterations=1000 "$folder/loop.s" | awk '/Total Cycles/ {print $3}')
  awk -v cpu="$1" -v per_cycle="$2" -v n="$n_fmla" -v cycles="$cycles" 'BEGIN {
    printf "%s: %d FMLA in %.1f cycles, multiply-add units busy %.0f %%\n", cpu, n, cycles / 1000,
           100 * n / per_cycle / (cycles / 1000)}'
done
