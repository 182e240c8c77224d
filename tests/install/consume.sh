#!/usr/bin/env bash
# Consumes the library as a user would: consume.sh package|pkg-config|subdirectory|shared BUILD SOURCE CXX [LAUNCHER]
# As a subdirectory the library is configured again, as BUILD is, and takes the objects of BUILD whose commands are the same;
# shared it is built again, and what it exports is looked at.
set -euo pipefail
how=$1 build=$2 source=$3 cxx=$4 launcher=${5:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program=$source/tests/install/consumer
export CCACHE_NOHASHDIR=1  # objects of another build folder serve here too

configure() {
  cmake -G Ninja -S "$program" -B "$work/build" -DCMAKE_CXX_COMPILER="$cxx" \
        -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" "$@"
  cmake --build "$work/build" -j 2
}

case $how in
  package)
    cmake --install "$build" --prefix "$work/prefix" >/dev/null
    # The program that docs/cpp.md prints, built as it says.
    program=$work/program && mkdir "$program"
    block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/d;p}" "$source/docs/cpp.md"; }
    block cmake >"$program/CMakeLists.txt"
    # By hand as it says: on all cores, and without debug information, with which an install is twenty times as large.
    grep -q '^cmake --build build --parallel$' "$source/docs/cpp.md"
    (cd "$source" && eval "$(grep '^cmake -B build ' docs/cpp.md | sed "s|-B build|-B '$work/by-hand' -G Ninja|")") >/dev/null
    grep -q '^CMAKE_BUILD_TYPE:STRING=Release$' "$work/by-hand/CMakeCache.txt"
    block cpp >"$program/main.cpp"
    configure -DCMAKE_PREFIX_PATH="$work/prefix"
    "$work/build/mine"
    "$work/prefix/bin/postlude" --version
    ;;
  pkg-config)
    cmake --install "$build" --prefix "$work/prefix" >/dev/null
    pc=$(find "$work/prefix" -name postlude.pc)
    export PKG_CONFIG_PATH=${pc%/*}
    # shellcheck disable=SC2046
    "$cxx" -std=c++20 "$source/tests/install/consumer/main.cpp" -o "$work/consumer" $(pkg-config --cflags --libs postlude)
    "$work/consumer"
    for vocabulary in cutlass catlass; do  # the visitor types, by the installed headers alone
      # shellcheck disable=SC2046
      "$cxx" -std=c++20 "$source/examples/visitors/$vocabulary.cpp" -o "$work/$vocabulary" $(pkg-config --cflags --libs postlude)
      "$work/$vocabulary"
    done
    pkg-config --modversion postlude
    ;;
  subdirectory)
    given() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
    type=$(given CMAKE_BUILD_TYPE)
    ninja -C "$build" -t compdb >"$work/build.json" || echo '[]' >"$work/build.json"
    launcher="python3;-SE;$source/tests/install/taken.py;$build;$work/build;$launcher"
    configure -DPOSTLUDE_SOURCE="$source" -DCMAKE_BUILD_TYPE="$type" \
              -DCMAKE_UNITY_BUILD="$(given CMAKE_UNITY_BUILD)" -DCMAKE_UNITY_BUILD_BATCH_SIZE="$(given CMAKE_UNITY_BUILD_BATCH_SIZE)" \
              -DCMAKE_CXX_FLAGS="$(given CMAKE_CXX_FLAGS)" \
              "-DCMAKE_CXX_FLAGS_${type^^}=$(given "CMAKE_CXX_FLAGS_${type^^}")" | tee "$work/log"
    "$work/build/consumer"
    if [ -e "$build/build.ninja" ] && grep -E "^compiled: ($source/src|$build)/" "$work/log"; then
      echo "the sources above are compiled with other flags than in $build" >&2
      exit 1
    fi
    ;;
  shared)
    configure -DPOSTLUDE_SOURCE="$source" -DBUILD_SHARED_LIBS=ON -DCMAKE_CXX_FLAGS=-O1
    "$work/build/consumer"
    library=$(find "$work/build" -name 'libpostlude.so' | head -n 1)
    # Only the public interface: nothing of the folders' own namespaces.
    if nm -D --defined-only --demangle "$library" | grep -E ' [TBDR] ' | grep -vE 'postlude::v0::|^[0-9a-f]+ . std::'; then
      echo "$library exports the symbols above" >&2
      exit 1
    fi
    if nm -D --defined-only --demangle "$library" | grep -E ' [TBDR] postlude::v0::(lower|cpu|cuda|reference|plan|core|graph)::'; then
      echo "$library exports what is internal" >&2
      exit 1
    fi
    ;;
esac
