#!/bin/sh
# Builds the native code with the sanitizers of addresses and of undefined behaviour, in build/sanitized, and runs it:
# every kernel against the portable ones, and the Python tests of what calls it. The installed modules stay as they are.
# The first time it compiles for ten minutes.
#
#   scripts/sanitize.sh                 all of it (make sanitize)
#   scripts/sanitize.sh tests/unit/ring  these Python tests alone

set -eu
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
build=$PWD/build/sanitized
flags="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
PATH=$bin:$PATH
export PATH UBSAN_OPTIONS=print_stacktrace=1

# build_with_sanitizers SOURCES PLACE OPTIONS...
build_with_sanitizers() {
    sources=$1 place=$2
    shift 2
    cmake -S "$sources" -B "$place" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="$flags" \
        -DKERNEL_OPTIMISATION=-O1 "$@" >"$place.log" || { cat "$place.log"; exit 1; }
    cmake --build "$place"
}

mkdir -p "$build"
if [ $# = 0 ]; then
    build_with_sanitizers tests/kernels "$build/kernels"
    "$build/kernels/compare"
    set -- tests/unit/ops tests/unit/ring tests/contract tests/unit/runtime tests/unit/engine
fi

# The package beside its sanitized modules: links to all else.
rm -rf "$build/package"
mkdir -p "$build/package"
cp -rs "$PWD/src/tailrace" "$build/package/"
find "$build/package" -name '*.so' -delete
build_with_sanitizers . "$build/modules" -DTAILRACE_PACKAGE="$build/package/tailrace"

# Python itself is not built with sanitizers, so their runtime comes first, and what Python never frees is no leak.
runtime=$(${CXX:-c++} -print-file-name=libasan.so):$(${CXX:-c++} -print-file-name=libstdc++.so)
export PYTHONPATH="$build/package" ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 PYTHONMALLOC=malloc
LD_PRELOAD=$runtime "$bin/python" -c '
import sys
from tailrace.ops import _native
from tailrace.ring import _ring
sys.exit(not all("sanitized" in each.__file__ for each in (_native, _ring)))'
LD_PRELOAD=$runtime exec "$bin/python" -m pytest -q "$@"
