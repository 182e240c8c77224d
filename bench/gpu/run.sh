#!/usr/bin/env bash
# ./dev gpu [STAGE]...: on a machine with a Hopper GPU, in under ten minutes on 16 cores. Stages, all of them where none is named:
#   peers     torch's operators, torch.compile and cuBLASLt on the suite, in turns with torch.mm (python3 with torch; else skipped)
#   suite     the suite beside cuBLAS's plain product, streams beside a copy, what compiling and launching cost, the sweep
#   tests     tests/gpu
#   python    tests/python against torch, in a build of the package
#   fuzz      random epilogues by random legal schedules (CASES, 1600 unless set; SECONDS_FUZZ at most, 200 unless set)
#   sanitize  compute-sanitizer's four tools on one epilogue of each kind (where it is installed)
# ./dev gpu shapes [SEED] [--seconds S] [--cells N] [--schedules | --conv]: random cells instead (bench/shapes/gpu.py says what), in under
# eight minutes; h200_shapes.json and .svg, the seeds' record and cells.jsonl (which is there also when it was cut short) go to $OUT.
# ./dev gpu loops: reductions described as loops beside a copy and torch.compile instead (bench/gpu/loops.py); h200_loops.json.
# ./dev gpu conv: convolutions beside cuDNN and torch.compile instead (bench/gpu/conv.py); h200_conv.json.
# h200.json, h200.md, fuzz.log and the stages' logs go to $OUT (bench/results where it is unset). xxhash.h may be named by
# XXHASH_INCLUDE_DIR. Exits with 1 where any stage failed; the last lines say which, after the table.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
out=${OUT:-$root/bench/results}
build=$root/build/gpu
jobs=$(nproc)
shapes=()
if [ "${1:-}" = shapes ]; then
  shapes=("${@:2}")
  set -- shapes
fi
stages=${*:-peers suite tests python fuzz sanitize}
log=$build/log
rm -rf "$log"
mkdir -p "$out" "$log"
export POSTLUDE_CACHE_DIR=$build/cache TORCHINDUCTOR_CACHE_DIR=$build/inductor PYTHONUNBUFFERED=1
failures=()

wanted() { [[ " $stages " == *" $1 "* ]]; }
say() { printf '%4d s  %s\n' "$SECONDS" "$*"; }
failed() { failures+=("$1"); say "FAILED: $1 ${2:+(see $2)}"; [ -z "${2:-}" ] || tail -n 40 "$2"; }
has_torch() { python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; }

for stage in $stages; do
  case $stage in peers|suite|tests|python|fuzz|sanitize|shapes|loops|conv) ;; *) echo "no stage is called $stage" >&2; exit 2 ;; esac
done

# Inductor compiles for minutes on one core. It does so beside the build, a process an epilogue, for its own cache on disk.
preparing=()
if wanted peers; then
  if has_torch; then
    for ((i = 0; i < 14; ++i)); do
      TORCHINDUCTOR_COMPILE_THREADS=1 OMP_NUM_THREADS=1 nice -n 5 timeout 200 python3 bench/gpu/peers.py --prepare $i/14 >"$log/prepare.$i.log" 2>&1 &
      preparing+=($!)
    done
  else
    say "peers: python3 has no torch with a GPU; the table goes without"
    stages=${stages//peers/}
  fi
fi

# One configuration for everything: the package's, with the library's own tests switched on where nanobind is here.
arguments=(-G Ninja -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPOSTLUDE_BUILD_TESTS=ON -DPOSTLUDE_BUILD_CLI=OFF -DPOSTLUDE_BUILD_EXAMPLES=OFF
           -DPOSTLUDE_INSTALL=OFF ${XXHASH_INCLUDE_DIR:+-DXXHASH_INCLUDE_DIR=$XXHASH_INCLUDE_DIR})
targets=(test_gpu fuzz_gpu gpu_suite)
{ wanted shapes || [ "$stages" = loops ] || [ "$stages" = conv ]; } && targets=()
inside=$build
if { wanted python || wanted shapes || wanted loops || wanted conv; } && nanobind=$(python3 -m nanobind --cmake_dir 2>/dev/null); then
  arguments+=(-S python "-Dnanobind_DIR=$nanobind" "-DPython_EXECUTABLE=$(command -v python3)" -DSKBUILD_PROJECT_VERSION=0.1.0)
  targets+=(_core)
  inside=$build/postlude
else
  { wanted shapes || wanted loops || wanted conv; } && { say "nanobind is not here"; exit 1; }
  wanted python && { say "python: nanobind is not here; its tests are skipped"; stages=${stages//python/}; }
  arguments+=(-S .)
fi
if ! { cmake "${arguments[@]}" && ninja -C "$build" "${targets[@]}"; } >"$log/build.log" 2>&1; then
  grep -E 'error:|FAILED:|CMake Error' -A 5 "$log/build.log" | head -n 60
  exit 1
fi
say "built"
tests=$inside/tests/gpu
site=$build/site
package() {  # the Python package, where PYTHONPATH finds it
  rm -rf "$site"
  mkdir -p "$site"
  cp -r python/postlude "$site/"
  cp "$build"/_core*.so "$site/postlude/"
  cp -r epilogues "$site/postlude/"
}

if wanted shapes; then
  package
  # A cache of its own: first calls are cold.
  env -u POSTLUDE_CACHE_DIR PYTHONPATH="$site" python3 bench/shapes/gpu.py "${shapes[@]}" --out "$out"
  exit
fi

if wanted conv; then
  package
  for ((i = 0; i < jobs; ++i)); do  # torch.compile's programs, a share for each core
    PYTHONPATH="$site" TORCHINDUCTOR_COMPILE_THREADS=1 OMP_NUM_THREADS=1 timeout 200 python3 bench/gpu/conv.py --prepare $i/$jobs >"$log/prepare.$i.log" 2>&1 &
    preparing+=($!)
  done
  for process in ${preparing[@]+"${preparing[@]}"}; do wait "$process" || true; done
  PYTHONPATH="$site" timeout 540 python3 bench/gpu/conv.py --json "$out/h200_conv.json" || failed conv
fi

if wanted loops; then
  package
  PYTHONPATH="$site" timeout 300 python3 bench/gpu/loops.py --out "$out" || failed loops
fi

# What the suite will compile, a share for each core.
if wanted suite; then
  warming=()
  for ((i = 0; i < jobs; ++i)); do
    nice -n 2 "$tests/gpu_suite" --prewarm $i/$jobs --sweep >"$log/prewarm.$i.log" 2>&1 &
    warming+=($!)
  done
  for i in "${!warming[@]}"; do wait "${warming[$i]}" || failed suite "$log/prewarm.$i.log"; done
  say "compiled the suite's kernels"
fi
for process in ${preparing[@]+"${preparing[@]}"}; do wait "$process" || true; done  # a peer that does not compile is left out

# Times, while nothing else runs.
if wanted peers; then
  timeout 240 python3 bench/gpu/peers.py --json "$log/peers.json" --autotune "${AUTOTUNE_SECONDS:-70}" >"$log/peers.log" 2>"$log/peers.err" || failed peers "$log/peers.err"
  grep -E ':|skipped' "$log/peers.log" | cut -c -400 | tail -n 20
  say "timed the peers"
fi
if wanted suite; then
  # NVRTC 13 keeps what it compiled in a cache of its own, which would make a cold compile warm.
  CUDA_CACHE_DISABLE=1 timeout 240 "$tests/gpu_suite" --json "$log/suite.json" --streams --costs --sweep >"$log/suite.log" 2>&1 || failed suite "$log/suite.log"
  say "timed the suite"
fi

# Correctness, all at once: what is slow here is compiling, on the host.
running=() names=() logs=()
start() {  # $1: stage, $2: log, the rest: a command
  local stage=$1 file=$2; shift 2
  timeout 300 "$@" >"$file" 2>&1 &
  running+=($!) names+=("$stage") logs+=("$file")
}
if wanted tests; then
  start tests "$log/tests.log" ctest --test-dir "$inside" -R '^gpu\.' -j "$jobs" --timeout 300 --output-on-failure --no-tests=error
fi
if wanted python; then
  package
  # A wheel, stubs and notebooks are no matter of the GPU's.
  start python "$log/python.log" env PYTHONPATH="$site" python3 -m pytest -q -p no:cacheprovider tests/python --ignore tests/python/test_wheel.py \
    --ignore tests/python/test_stubs.py --ignore tests/python/test_examples.py
fi
if wanted fuzz; then
  cases=${CASES:-1600}
  first=${FIRST_SEED:-$(date +%s)}
  for ((i = 0; i < jobs; ++i)); do
    start fuzz "$log/fuzz.$i.log" "$tests/fuzz_gpu" $((first + i)) $((cases - i)) "$jobs" "${SECONDS_FUZZ:-200}"
  done
fi
if wanted sanitize; then
  if sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1) && [ -n "$sanitizer" ]; then
    # A plain product, staged operands and outputs, a chunk, reductions over N, M and both, a second phase, an index; split tiles;
    # several tiles a block; groups of rows; a convolution and its gradients.
    set=(plain bias_gelu_res_aux swiglu rowmax dgelu_dbias bce softmax argmax)
    for tool in memcheck racecheck synccheck initcheck; do
      start sanitize "$log/$tool.log" "$sanitizer" --tool $tool --error-exitcode 9 --print-limit 5 "$tests/test_gpu" --gtest_brief=1 \
        --gtest_filter="$(printf '*Sanitized.*/%s:' "${set[@]}")Schedules.SplitTiles*:Schedules.TilesInTurns*:GroupsOfRows.Sanitized:Convolution.Sanitized:DepthwiseRings.*"
    done
  else
    say "sanitize: compute-sanitizer is not here"
  fi
fi
for i in "${!running[@]}"; do
  wait "${running[$i]}" || failed "${names[$i]}" "${logs[$i]}"
done
wanted tests && grep -E 'tests passed|tests failed' "$log/tests.log"
wanted python && tail -n 1 "$log/python.log"
if wanted fuzz; then
  cat "$log"/fuzz.*.log >"$out/fuzz.log"
  summary=$(grep -h '^fuzz_gpu' "$log"/fuzz.*.log | awk '{ran += $2; drawn += $4; failed += $8} END {print ran + 0, drawn + 0, failed + 0}')
  read -r ran drawn wrong <<<"$summary"
  say "$ran random epilogues from seed $first, $drawn of them by a random schedule of their own, $wrong failed"
  [ "$ran" -ge $((cases * 5 / 8)) ] || failed "fuzz: only $ran of $cases ran"
fi
wanted sanitize && for tool in memcheck racecheck synccheck initcheck; do [ -e "$log/$tool.log" ] && echo "$tool: $(grep -h 'SUMMARY' "$log/$tool.log" | tail -n 1)"; done

if [ -e "$log/suite.json" ]; then
  python3 bench/gpu/report.py "$log/suite.json" "$log/peers.json" "$out" || failed report
fi
tar -czf "$out/gpu_logs.tar.gz" -C "$build" log
say "done"
if [ ${#failures[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "$(printf '%s\n' "${failures[@]}" | sort -u | paste -sd ' ')"
  exit 1
fi
