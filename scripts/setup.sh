#!/bin/sh
# Makes .venv and installs Tailrace into it: `setup.sh core` to run it, `setup.sh dev` to work on it as well.
# Each step may be repeated; what is there is kept. A failure that the user can mend ends in one line that says how.

set -u
LC_ALL=C
export LC_ALL

cd "$(dirname "$0")/.." || exit 1
venv=.venv
again="then run the same command again; what is there is kept"

fail() {
    printf 'setup: %s\n' "$1" >&2
    exit 1
}

say() { printf 'setup: %s\n' "$1" >&2; }

# --- what the machine must have --------------------------------------------------------------------------------------

version_of() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Prints the interpreter to use: $PYTHON, or the first on PATH that is new enough.
find_python() {
    oldest_seen=
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        is_new_enough "$candidate" && command -v "$candidate" && return
        version=$(version_of "$candidate") && oldest_seen="${oldest_seen:-$candidate is $version}"
    done
    if [ -n "$oldest_seen" ]; then
        fail "Python 3.11 or newer is needed, $oldest_seen: install a newer one, or name it: make PYTHON=/path/to/python3.12 ..."
    fi
    fail "Python 3.11 or newer is needed, none was found (tried ${PYTHON:-python3, python}): install one, or name it: make PYTHON=/path/to/python3 ..."
}

require_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$1 comes without venv or ensurepip: install them (Debian, Ubuntu: apt-get install python3-venv), $again"
}

require_headers() {
    "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
        fail "$1 comes without its C headers: install them (Debian, Ubuntu: apt-get install python3-dev), $again"
}

# CXX may be a command with arguments (ccache g++), so it is not quoted.
compiles() { printf '#include <cstdint>\n#include <span>\n' | $1 -std=c++20 -fsyntax-only -x c++ - 2>/dev/null; }

# Leaves the compiler in CXX: Python's own build settings may name one that this machine does not have.
require_compiler() {
    if [ -z "${CXX:-}" ]; then
        CXX=$(command -v c++ || command -v g++ || command -v clang++) ||
            fail "no C++ compiler was found (looked for c++, g++, clang++): install one (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install), $again"
    fi
    export CXX
    compiles "$CXX" ||
        fail "$CXX does not compile C++20 with its standard library: install g++ 11 or clang 14, or newer, or name it: make CXX=/path/to/g++ ..."
}

# --- steps -----------------------------------------------------------------------------------------------------------

# Says in one line what a failed step means. The output was held in memory: a full disk must not hide it.
explain() {
    case $2 in
    *"No space left on device"* | *"Disk quota exceeded"*)
        fail "the disk is full ($1): free about 1 GB in $(pwd) and in the folder for temporary files, $again" ;;
    *"ermission denied"*)
        fail "writing was not allowed ($1): make $(pwd) writable for $(id -un), $again" ;;
    *"Could not find a version"* | *"No matching distribution"* | *ConnectionError* | *TimeoutError* | *SSLError* | *"Max retries"*)
        fail "packages could not be fetched ($1): check the network, or pip's index and proxy settings, $again" ;;
    *"Killed signal"* | *"out of memory"*)
        fail "the compiler ran out of memory ($1): close other programs, $again" ;;
    esac
    printf '%s\n' "$2" | tail -n 40 >&2
    fail "failed: $1; the messages above say why"
}

# step WHAT COMMAND...: quiet when all goes well.
step() {
    what=$1
    shift
    say "$what"
    output=$("$@" 2>&1) || explain "$what" "$output"
}

pip_install() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input install "$@"; }

# Leaves the folder's name inside the venv, which only works where it was made.
stamp() { pwd -P >"$venv/$1" || fail "cannot write $venv/$1: free disk space or make it writable, $again"; }

is_usable() {
    [ "$(cat "$venv/.home" 2>/dev/null || pwd -P)" = "$(pwd -P)" ] && is_new_enough "$venv/bin/python" &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

make_venv() {
    is_usable && return
    python=$(find_python) || exit 1
    require_venv "$python"
    require_headers "$python"
    step "making $venv with Python $(version_of "$python")" "$python" -m venv --clear "$venv"
    stamp .home
}

install_core() {
    require_compiler
    make_venv
    step "bringing pip up to date" pip_install 'pip>=25.1'
    step "installing the build tools (cmake, ninja, nanobind)" pip_install --group build
    step "installing Tailrace and building its native core (a minute or two)" pip_install --no-build-isolation --editable .
    stamp .core-installed
}

install_dev() {
    step "installing the tools for development" pip_install --group dev
    stamp .dev-installed
}

case ${1:-} in
core) install_core ;;
dev) install_dev ;;
*) fail "usage: setup.sh core|dev" ;;
esac
