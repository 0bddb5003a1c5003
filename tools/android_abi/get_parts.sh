#!/bin/sh
# Gets what the check of Android's ABI is made of, into a folder: a prebuilt ExecuTorch for Android with its headers and
# the libraries that it needs (npm), and C headers for arm64 (Debian, through a private apt root, so that nothing on this
# machine changes).
#   tools/android_abi/get_parts.sh FOLDER [PYTHON]
set -eu
python=$(realpath -s "$(command -v "${2:-python3}")")
mkdir -p "$(dirname "$1")"
folder=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
npm pack --silent react-native-executorch@0.8.5 react-native@0.68.7 >/dev/null
mkdir new
tar -xzf react-native-executorch-*.tgz package/third-party/include package/third-party/android/libs
mv package/third-party/include new/include
mv package/third-party/android/libs/executorch/arm64-v8a new/lib
# Of React Native only the C++ library and the JNI helpers: ExecuTorch's library was linked with them.
aar=$(tar -tzf react-native-0.*.tgz | grep -E '/react-native-[0-9.]+(-release)?\.aar$' | head -1)
tar -xzf react-native-0.*.tgz "$aar"
"$python" -m zipfile -e "$aar" aar
mv aar/jni/arm64-v8a/libc++_shared.so aar/jni/arm64-v8a/libfbjni.so new/lib

mkdir -p state/lists/partial cache/archives/partial
touch status
set -- -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$work/state" \
  -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root
apt-get "$@" update
apt-get "$@" download musl-dev linux-libc-dev
for deb in ./*.deb; do dpkg -x "$deb" headers; done
mv headers/usr/include new/musl
rm -rf "$folder"
mv new "$folder"
