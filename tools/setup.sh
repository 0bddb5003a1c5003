#!/bin/sh
# Makes a fresh clone ready to build: the packages that pip cannot give, and .venv with the pinned ones.
# Instant and offline when pyproject.toml asks for nothing new.
#   tools/setup.sh          for everything but:
#   tools/setup.sh full     also the packages that only `make test-full` uses (clang, npm: 0.5 GB)
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
extent=${1:-}

fail() {
  echo "error: $*" >&2
  exit 1
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "cannot set up: $python is not Python 3.11 or newer; call make with PYTHON=/path/to/python3.11"

# Prints the Debian packages that are missing here.
missing_packages() {
  if ! command -v g++ >/dev/null; then
    echo g++ libgtest-dev
  elif ! echo '#include <gtest/gtest.h>' | g++ -E -x c++ - >/dev/null 2>&1; then
    echo libgtest-dev
  fi
  # For the tests of pages and of devices.
  command -v chromium >/dev/null || command -v google-chrome >/dev/null || echo chromium
  command -v ip >/dev/null || [ -x /usr/sbin/ip ] || echo iproute2
  command -v aarch64-linux-gnu-g++ >/dev/null || echo g++-aarch64-linux-gnu # tests for arm64
  command -v qemu-aarch64-static >/dev/null || echo qemu-user-static
  command -v qemu-system-aarch64 >/dev/null || echo qemu-system-arm # virtual phones
  command -v mke2fs >/dev/null || [ -x /usr/sbin/mke2fs ] || echo e2fsprogs
  # The app: its logic and its engine are tested in a JVM, and `daf apk build` makes a check build of it.
  command -v javac >/dev/null || echo openjdk-17-jdk-headless
  [ -e /usr/share/java/junit4.jar ] || echo junit4
  command -v apksigner >/dev/null || echo apksigner
  command -v zipalign >/dev/null || echo zipalign
  command -v dexdump >/dev/null || echo dexdump
  [ -e /usr/share/android-framework-res/framework-res.apk ] || echo android-framework-res
  # Vulkan and OpenCL, to build with and to test on without a GPU.
  command -v glslc >/dev/null || echo glslc spirv-tools
  [ -e /usr/include/volk.h ] && [ -e /usr/include/vulkan/vulkan.h ] || echo libvulkan-dev libvulkan-volk-dev
  [ -e /usr/include/CL/cl.h ] || echo opencl-headers
  [ -e /etc/OpenCL/vendors/pocl.icd ] || echo pocl-opencl-icd ocl-icd-opencl-dev
  ls /usr/share/vulkan/icd.d/lvp_icd.*.json >/dev/null 2>&1 || echo mesa-vulkan-drivers
  ls /usr/share/vulkan/explicit_layer.d/*validation*.json >/dev/null 2>&1 || echo vulkan-validationlayers
  command -v oclgrind >/dev/null || echo oclgrind
  if [ "$extent" = full ]; then # Android's own ABI: tools/check_android_abi.sh
    command -v clang++-19 >/dev/null || echo clang-19
    command -v ld.lld-19 >/dev/null || echo lld-19
    [ -e /usr/lib/llvm-19/include/c++/v1/__config_site ] || echo libc++-19-dev
    command -v npm >/dev/null || echo npm
  fi
  "$python" -c 'import ensurepip' 2>/dev/null || echo python3-venv
  "$python" -c 'import os, sysconfig as s; os.stat(s.get_path("include") + "/Python.h")' 2>/dev/null ||
    echo python3-dev
}

packages=$(echo $(missing_packages))
if [ -n "$packages" ]; then
  if ! command -v apt-get >/dev/null; then
    reason="this is not a Debian system"
  elif [ "$(id -u)" = 0 ]; then
    reason= && as_root=
  elif sudo -n true 2>/dev/null; then
    reason= && as_root=sudo
  else
    reason="only root may"
  fi
  if [ -z "$reason" ]; then
    echo "installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    install_package() { $as_root apt-get install -y --no-install-recommends -qq "$@" >/dev/null; }
    # One that is not to be had must not keep the others away.
    if ! { $as_root apt-get update -qq && install_package $packages; }; then
      wanted=$packages packages= reason="apt-get failed"
      for package in $wanted; do install_package "$package" || packages="$packages $package"; done
    fi
  fi
  if [ -n "$reason" ] && [ -n "$packages" ]; then
    echo "SKIP installing $packages: $reason; by hand: sudo apt-get install $packages" >&2
  fi
  command -v g++ >/dev/null || fail "cannot build without a C++17 compiler; install g++ and call make again"
fi

[ -x .venv/bin/python ] || "$python" -m venv .venv ||
  fail "cannot create .venv; install your Python's venv module (Debian: python3-venv) and call make again"

# The stamp is the list itself: what was installed here last.
stamp=.venv/installed-requirements.txt
wanted=$(.venv/bin/python - <<'END'
import tomllib

with open("pyproject.toml", "rb") as file:
    config = tomllib.load(file)
project = config["project"]
print(*config["build-system"]["requires"], *project["dependencies"], sep="\n")
print(*(name for extra in project["optional-dependencies"].values() for name in extra), sep="\n")
END
)
if [ ! -f "$stamp" ] || [ "$wanted" != "$(cat "$stamp")" ]; then
  echo "installing packages into .venv (about 1.5 GB, a few minutes)"
  pip() { .venv/bin/python -m pip --disable-pip-version-check install --quiet "$@"; }
  pip "$(echo "$wanted" | grep '^torch==')" # first: the others then take it as it is
  echo "$wanted" >"$stamp.new"
  pip -r "$stamp.new"
  mv "$stamp.new" "$stamp"
fi

# The device that the tests talk to. Tried once: without it, they are skipped.
if [ ! -e .venv/adbd ]; then
  echo "getting adbd for the tests of devices (35 MB)"
  tools/get_adbd.sh .venv/adbd >.venv/adbd.log 2>&1 || {
    mkdir -p .venv/adbd
    echo "SKIP getting adbd: see .venv/adbd.log; to try again: tools/get_adbd.sh .venv/adbd" >&2
  }
fi

# What Debian's packages do not have of a check build of the app. Tried once: without it, its tests are skipped.
if [ ! -e .venv/apk-tools ]; then
  echo "getting aapt2, D8 and Android's classes for the check build of the app (75 MB)"
  tools/get_apk_tools.sh .venv/apk-tools .venv/bin/python >.venv/apk-tools.log 2>&1 || {
    mkdir -p .venv/apk-tools
    echo "SKIP getting them: see .venv/apk-tools.log; to try again: tools/get_apk_tools.sh .venv/apk-tools" >&2
  }
fi

# Tried each time that it is asked for: nothing else needs it.
if [ "$extent" = full ] && [ ! -e .venv/android-abi/parts ]; then
  echo "getting a prebuilt ExecuTorch for Android, for the check of its ABI (50 MB)"
  tools/android_abi/get_parts.sh .venv/android-abi/parts .venv/bin/python >.venv/android-abi.log 2>&1 ||
    echo "SKIP getting it: see .venv/android-abi.log; its test is skipped" >&2
fi
