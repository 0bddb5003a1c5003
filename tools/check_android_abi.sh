#!/bin/sh
# Builds the engine and the runner of the app for Android's own ABI (arm64, bionic, libc++ of the NDK) without the NDK,
# from the same CMake targets, and links them against a prebuilt Android ExecuTorch.
#   tools/check_android_abi.sh FOLDER                  has get_parts.sh's parts in it; objects go there, to be used again
#   tools/check_android_abi.sh FOLDER REQUEST.json     and trains what the request says, under emulation
# What it shows: the sources compile with clang for Android, GPU backends included, an Android build of ExecuTorch exports
# what they need, and the two of them train. What it does not: that they do so on a phone. C headers are musl's and the
# process is glibc's, with a shim for what only bionic has; errors would not get past the C++ libraries, which are of
# different ages; no driver of a GPU is called; and nothing is said about speed. Release with the NDK.
# Needs (Debian): clang-19 lld-19 libc++-19-dev npm openjdk-17-jdk-headless g++-aarch64-linux-gnu qemu-user-static
#   glslc libvulkan-dev libvulkan-volk-dev opencl-headers
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
folder=$(cd "$1" && pwd)
request=${2:-}
tools=$PWD/tools/android_abi
python=$(realpath -s "${PYTHON:-.venv/bin/python}")

[ -d "$folder/parts" ] || {
  echo "error: no prebuilt ExecuTorch in $folder; get it with tools/android_abi/get_parts.sh $folder/parts" >&2
  exit 1
}

# Files that are the same stay as they are: nothing is compiled again because of them.
put() { # FILE, its text from standard input
  mkdir -p "$(dirname "$1")"
  cat >"$1.new"
  if cmp -s "$1.new" "$1"; then rm "$1.new"; else mv "$1.new" "$1"; fi
}

# What bionic's headers have and musl's do not, and libc++ with the inline namespace of the NDK.
include=$folder/include
sed 's/#define _LIBCPP_ABI_NAMESPACE .*/#define _LIBCPP_ABI_NAMESPACE __ndk1/' \
  /usr/lib/llvm-19/include/c++/v1/__config_site | put "$include/c++/__config_site"
put "$include/sys/system_properties.h" <<'HEADER'
#define PROP_VALUE_MAX 92
extern "C" int __system_property_get(const char* name, char* value);
HEADER
put "$include/xlocale.h" <<'HEADER'
#include <locale.h>
long long strtoll_l(const char*, char**, int, locale_t);
unsigned long long strtoull_l(const char*, char**, int, locale_t);
HEADER
put "$include/android/api-level.h" </dev/null
echo '#define __NDK_MAJOR__ 28' | put "$include/android/ndk-version.h"
evalue=executorch/runtime/core/evalue.h
"$python" "$tools/adapt.py" header "$folder/parts/include/$evalue" "$folder/evalue.h"
put "$include/$evalue" <"$folder/evalue.h"
# The NDK has Vulkan's headers; those of volk and of OpenCL are given to every build for Android.
mkdir -p "$folder/gpu"
cp -ru /usr/include/vulkan /usr/include/vk_video "$include"
cp -ru /usr/include/volk.h /usr/include/volk.c /usr/include/CL "$folder/gpu"

# The libraries of a phone: ExecuTorch's, without versions of symbols, and a shim for bionic's.
run=$folder/run
mkdir -p "$run"
"$python" "$tools/adapt.py" library "$folder/parts/lib/libexecutorch.so" "$run/libexecutorch_jni.so"
for name in libc++_shared libfbjni; do
  "$python" "$tools/adapt.py" library "$folder/parts/lib/$name.so" "$run/$name.so"
done
gcc=aarch64-linux-gnu-gcc
$gcc -shared -fPIC -w -O1 -Wl,-soname,libc.so,--no-as-needed "$tools/bionic_shim.c" -o "$run/libc.so" \
  -lm -ldl -lpthread -lgcc_s
for name in libm libdl liblog libandroid; do
  $gcc -shared -x c /dev/null "-Wl,-soname,$name.so" -o "$run/$name.so"
done

build=$folder/build
{
  cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$tools/toolchain.cmake" -DDAF_CHECK_FOLDER="$folder" \
    -Dexecutorch_DIR="$tools" -DDAF_GPU_HEADERS="$folder/gpu" &&
    cmake --build "$build" --target daf_jni daf_runner
} >"$folder/build.log" 2>&1 || { cat "$folder/build.log" >&2 && exit 1; }
echo "compiled $(find "$build" -name '*.o' | wc -l) objects for aarch64-linux-android26"

library=$build/runtime_ops/jni/libdaf_jni.so
symbols() { nm --dynamic --demangle "$@" | sed -n 's/^[0-9a-f ]* [A-Za-z] //p' | sort -u; }
symbols --defined-only "$run/libexecutorch_jni.so" "$run/libc++_shared.so" >"$folder/defined"
symbols --undefined-only "$library" >"$folder/needed"
comm -23 "$folder/needed" "$folder/defined" >"$folder/missing"
if grep -E '^(executorch|daf|std)::' "$folder/missing" >&2; then
  echo "error: these are in no library" >&2
  exit 1
fi
echo "$(grep -c '^executorch::' "$folder/needed") functions of ExecuTorch are needed, and exported by the prebuilt one"
echo "left to bionic and libm: $(wc -l <"$folder/missing") symbols"

[ -n "$request" ] || exit 0
exec qemu-aarch64-static -cpu cortex-a76 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$run" -E "LD_PRELOAD=$run/libc.so" \
  -E DAF_THREADS=1 "$build/runtime_ops/runner/daf_runner" "$request"
