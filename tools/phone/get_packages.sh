#!/bin/sh
# Puts the content of Debian packages, with all that they depend on, into a folder. They come from Debian 13, through a
# private apt root: nothing on this machine changes, and its own release and architecture do not matter.
#   get_packages.sh FOLDER ARCHITECTURE PACKAGE...
# The word `kernel` stands for the newest Linux image for virtual machines, without what it would depend on.
set -eu
suite=trixie
mkdir -p "$(dirname "$1")"
folder=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") architecture=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/etc/sources.d" "$work/state/lists/partial" "$work/cache/archives/partial" "$work/debs"
# The machine's own mirror, whichever form its list has.
for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/debian.list; do
  [ -f "$list" ] || continue
  case $list in
    *.sources) copy=$work/etc/sources.d/next.sources ;;
    *) copy=$work/etc/sources.d/next.list ;;
  esac
  sed "s/\b\(buster\|bullseye\|bookworm\|stable\|trixie\|forky\|testing\|sid\)\b/$suite/g" "$list" >>"$copy"
done
touch "$work/status"
cat >"$work/apt.conf" <<END
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/etc/sources.d";
Dir::State "$work/state";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
quiet "2";
END
export APT_CONFIG="$work/apt.conf"
apt-get update
# With an empty status file apt takes every dependency for missing, down to the C library.
# shellcheck disable=SC2046
names=$(apt-get install --print-uris $(echo "$@" | sed 's/\bkernel\b//') | sed "s/^'[^']*' \([^_]*\)_.*/\1/")
case " $* " in
  *" kernel "*) names="$names $(apt-cache depends "linux-image-cloud-$architecture" | sed -n 's/ *Depends: //p')" ;;
esac
cd "$work/debs"
# shellcheck disable=SC2086
apt-get download $names
rm -rf "$folder.new"
mkdir -p "$folder.new"
for deb in ./*.deb; do
  dpkg -x "$deb" "$folder.new"
done
rm -rf "$folder"
mv "$folder.new" "$folder"
