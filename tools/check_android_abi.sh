#!/bin/sh
# Compiles the engine of the app for Android's own ABI (arm64, bionic, libc++ of the NDK) without the NDK, and links it
# against a prebuilt Android ExecuTorch.
#   tools/check_android_abi.sh FOLDER        downloads and objects go there
#   tools/check_android_abi.sh FOLDER REQUEST.json     and runs a training request in it, under emulation
# What it shows: the sources compile with clang for Android, an Android build of ExecuTorch exports what they need, and
# the two of them train. What it does not: that they do so on a phone. C headers are musl's and the process is glibc's, with
# a shim for what only bionic has; errors would not get past the C++ libraries, which are of different ages; and nothing is
# said about speed. Release with the NDK.
# Needs (Debian): clang-19 lld-19 libc++-19-dev openjdk-17-jdk-headless npm g++-aarch64-linux-gnu qemu-user-static
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
folder=$(cd "$1" && pwd)
request=${2:-}
source=$PWD
python=$(realpath -s "${PYTHON:-.venv/bin/python}")
jni=$(dirname "$(find -L /usr/lib/jvm -name jni.h | head -1)")

fetch() {
  [ -d "$folder/$1" ] && return
  mkdir -p "$folder/$1.new"
  (cd "$folder/$1.new" && npm pack --silent "$2" >/dev/null && tar -xzf ./*.tgz && rm ./*.tgz)
  mv "$folder/$1.new" "$folder/$1"
}
fetch executorch react-native-executorch@0.8.5
fetch react-native react-native@0.68.7
executorch=$folder/executorch/package/third-party
prebuilt=$executorch/android/libs/executorch/arm64-v8a/libexecutorch.so
if [ ! -d "$folder/cxx-lib" ]; then
  aar=$(find "$folder/react-native" -name 'react-native-*.aar' ! -name '*sources*' | head -1)
  "$python" -m zipfile -e "$aar" "$folder/aar" && mv "$folder/aar/jni/arm64-v8a" "$folder/cxx-lib"
fi
if [ ! -d "$folder/musl" ]; then # headers of arm64, through a private apt root
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
  touch "$work/status"
  set -- -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$work/state" \
    -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root
  apt-get "$@" update
  (cd "$work" && apt-get "$@" download musl-dev linux-libc-dev)
  for deb in "$work"/*.deb; do dpkg -x "$deb" "$folder/musl.new"; done
  mv "$folder/musl.new" "$folder/musl"
fi

# What bionic's headers have and musl's do not, and libc++ with the inline namespace of the NDK.
include=$folder/include
mkdir -p "$include/sys" "$include/android" "$include/c++" "$folder/objects"
sed 's/#define _LIBCPP_ABI_NAMESPACE .*/#define _LIBCPP_ABI_NAMESPACE __ndk1/' \
  /usr/lib/llvm-19/include/c++/v1/__config_site >"$include/c++/__config_site"
cat >"$include/sys/system_properties.h" <<'END'
#define PROP_VALUE_MAX 92
extern "C" int __system_property_get(const char* name, char* value);
END
cat >"$include/xlocale.h" <<'END'
#include <locale.h>
long long strtoll_l(const char*, char**, int, locale_t);
unsigned long long strtoull_l(const char*, char**, int, locale_t);
END
: >"$include/android/api-level.h"
echo '#define __NDK_MAJOR__ 28' >"$include/android/ndk-version.h"
core=executorch/runtime/core
mkdir -p "$include/$core"
"$python" tools/android_abi/adapt.py header "$executorch/include/$core/evalue.h" "$include/$core/evalue.h"

cat >"$folder/compile.sh" <<END
set -eu
object=$folder/objects/\$(echo "\$1" | tr / _ | sed 's/\.cpp\$//')\${2:-}.o
# Not again when nothing has changed: the compiler wrote down what it read.
newer=\$(sed 's/^[^:]*://; s/\\\\//' "\$object.d" 2>/dev/null | tr ' ' '\n' | sed '/^\$/d' | xargs -r ls -t "\$object" 2>/dev/null | head -1)
[ "\$newer" = "\$object" ] && exit 0
case \$1 in */runner/main.cpp) main=-Dmain=daf_runner_main ;; *) main= ;; esac
exec clang++-19 --target=aarch64-linux-android26 -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra \\
  -nostdinc++ -nostdlibinc -D_LIBCPP_HAS_MUSL_LIBC -MMD -MF "\$object.d" \\
  -DDAF_VERSION='"check"' -DDAF_HAS_scalar -DDAF_HAS_neon -DC10_USING_CUSTOM_GENERATED_MACROS \\
  \${2:+-DDAF_ISA=\$2 -DDAF_ISA_\$2 -fno-math-errno -fno-trapping-math} \\
  -isystem $include -isystem $include/c++ -isystem /usr/lib/llvm-19/include/c++/v1 \\
  -isystem $folder/musl/usr/include/aarch64-linux-musl -isystem $folder/musl/usr/include -I $source \\
  -isystem $executorch/include -isystem $executorch/include/executorch/runtime/core/portable_type/c10 \\
  -isystem $jni -isystem $jni/linux \$main -c "\$1" -o "\$object"
END
{
  find runtime_ops/session runtime_ops/ops runtime_ops/store runtime_ops/jni runtime_ops/runner tools/android_abi \
    ! -path '*/wheel/*' -name '*.cpp' ! -name 'bench*'
  find runtime_ops/gpu -maxdepth 1 -name '*.cpp' ! -name 'bench*'
  echo runtime_ops/gpu/vulkan/not_built.cpp # the headers are those of this machine
  echo runtime_ops/gpu/opencl/not_built.cpp
  echo runtime_ops/kernels/dispatch.cpp
  echo runtime_ops/kernels/thread_pool.cpp
} | xargs -P "$(nproc)" -I{} sh "$folder/compile.sh" {}
for isa in scalar neon; do
  find runtime_ops/kernels/common -name '*.cpp' | xargs -P "$(nproc)" -I{} sh "$folder/compile.sh" {} $isa
done
echo "compiled $(find "$folder/objects" -name '*.o' | wc -l) objects for aarch64-linux-android26"

link() { # OUTPUT OBJECTS...
  output=$1
  shift
  clang++-19 --target=aarch64-linux-android26 -nostdlib -shared --ld-path=/usr/bin/ld.lld-19 \
    "-Wl,-z,max-page-size=16384,-soname,$(basename "$output"),--unresolved-symbols=ignore-all" -o "$output" "$@" \
    "$prebuilt" "$folder/cxx-lib/libc++_shared.so"
}
cd "$folder/objects"
objects() { find . -name '*.o' ! -name "*_$1_*"; } # without that part
# shellcheck disable=SC2046
link "$folder/libdaf_jni.so" $(objects runner)
symbols() { nm --dynamic --demangle "$@"; }
symbols --defined-only "$prebuilt" "$folder/cxx-lib/libc++_shared.so" | sed -n 's/^[0-9a-f]* [A-Za-z] //p' |
  sort -u >"$folder/defined"
symbols --undefined-only "$folder/libdaf_jni.so" | sed 's/^ *[A-Za-z] //' | sort -u >"$folder/needed"
comm -23 "$folder/needed" "$folder/defined" >"$folder/missing"
if grep -E '^(executorch|daf|std)::' "$folder/missing" >&2; then
  echo "error: these are in no library" >&2
  exit 1
fi
echo "$(grep -c '^executorch::' "$folder/needed") functions of ExecuTorch are needed, and exported by the prebuilt one"
echo "left to bionic and libm: $(wc -l <"$folder/missing") symbols"

[ -n "$request" ] || exit 0
run=$folder/run
mkdir -p "$run"
# shellcheck disable=SC2046
link "$run/libdaf_check.so" $(objects jni)
"$python" "$source/tools/android_abi/adapt.py" library "$prebuilt" "$run/libexecutorch_jni.so"
for name in libc++_shared libfbjni; do
  "$python" "$source/tools/android_abi/adapt.py" library "$folder/cxx-lib/$name.so" "$run/$name.so"
done
gcc=aarch64-linux-gnu-gcc
$gcc -shared -fPIC -w -O1 -Wl,-soname,libc.so,--no-as-needed "$source/tools/android_abi/bionic_shim.c" -o "$run/libc.so" \
  -lm -ldl -lpthread -lgcc_s
for name in libm libdl liblog libandroid; do
  $gcc -shared -x c /dev/null "-Wl,-soname,$name.so" -o "$run/$name.so"
done
$gcc "$source/tools/android_abi/loader.c" -o "$run/loader" -ldl
exec qemu-aarch64-static -cpu cortex-a76 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$run" -E "LD_PRELOAD=$run/libc.so" \
  -E DAF_THREADS=1 "$run/loader" "$request"
