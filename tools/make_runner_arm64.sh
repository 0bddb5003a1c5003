#!/bin/sh
# Builds daf_runner for arm64 Linux, on the runtime in the arm64 wheel of ExecuTorch, and installs it beside the runner
# of this machine. What has not changed is not built again.
set -eu
cd "$(dirname "$0")/.."

fail() {
  echo "error: cannot build the runner for arm64: $*" >&2
  exit 1
}

command -v aarch64-linux-gnu-g++ >/dev/null ||
  fail "no cross compiler; install it (Debian: apt-get install g++-aarch64-linux-gnu)"

python=.venv/bin/python
package=.venv/arm64
wanted=$($python -c 'from importlib import metadata; print("executorch==" + metadata.version("executorch"))')
if [ "$(cat $package/installed 2>/dev/null)" != "$wanted" ]; then
  echo "getting the arm64 wheel of $wanted (16 MB)"
  rm -rf $package $package.new
  $python -m pip --disable-pip-version-check download --quiet --no-deps --only-binary=:all: --python-version 3.11 \
    --platform manylinux_2_28_aarch64 --dest $package.new "$wanted" || fail "pip cannot get the arm64 wheel of $wanted"
  $python -m zipfile -e $package.new/*.whl $package.new
  rm $package.new/*.whl
  echo "$wanted" >$package.new/installed
  mv $package.new $package
fi

mkdir -p build
log=build/arm64-runner.log
cmake --preset arm64-runner -DPython_EXECUTABLE="$PWD/$python" >$log 2>&1 && cmake --build --preset arm64-runner >>$log 2>&1 ||
  { cat $log >&2 && fail "see above"; }
cmake --install build/arm64-runner --strip --prefix \
  "$($python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" >>$log
