#!/usr/bin/env bash
# ./dev gpu: on a machine with a Hopper GPU, builds, runs tests/gpu, random epilogues, and the suite against cuBLAS.
# JSON, logs and tables go to $OUT (bench/results where it is unset).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${OUT:-bench/results}
build=build/gpu
mkdir -p "$out" $build
cmake -G Ninja -S . -B $build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPOSTLUDE_BUILD_CLI=OFF -DPOSTLUDE_BUILD_EXAMPLES=OFF >$build.log 2>&1 || { cat $build.log; exit 1; }
ninja -C $build test_gpu fuzz_gpu gpu_suite >$build.log 2>&1 || { grep -E 'error|FAILED' $build.log; exit 1; }
$build/tests/gpu/test_gpu --gtest_brief=1 || failed=1
jobs=$(nproc)
cases=${CASES:-1600}
for ((i = 0; i < jobs; ++i)); do
  $build/tests/gpu/fuzz_gpu $((10000 + i)) $((cases - i)) "$jobs" >$build/fuzz.$i.log 2>&1 &
done
wait
cat $build/fuzz.*.log >"$out/fuzz.log"
grep -h '^fuzz_gpu' $build/fuzz.*.log | awk '{ran += $2; failed += $4} END {print ran " random epilogues, " failed " failed"}'
$build/tests/gpu/gpu_suite --json "$out/h200.json" "$@" | tee "$out/suite.txt"
exit ${failed:-0}
