#!/bin/sh
# Puts Google's adbd, toybox and mksh with their libraries into a folder: the device that the tests talk to.
# They come from Debian 13, through a private apt root, so that nothing on this machine changes.
#   tools/get_adbd.sh FOLDER
set -eu
suite=trixie
mkdir -p "$1"
folder=$(cd "$1" && pwd)
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
set -- -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/etc/sources.d" \
  -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
  -o APT::Install-Recommends=false -o APT::Sandbox::User=root
apt-get "$@" update
# With an empty status file apt takes every dependency for missing, down to the C library.
apt-get "$@" install --print-uris adbd toybox mksh | sed "s/^'[^']*' \([^_]*\)_.*/\1/" >"$work/names"
cd "$work/debs"
# shellcheck disable=SC2046
apt-get "$@" download $(cat "$work/names")
mkdir -p "$folder.new"
for deb in ./*.deb; do
  dpkg -x "$deb" "$folder.new"
done
rm -rf "$folder"
mv "$folder.new" "$folder"
