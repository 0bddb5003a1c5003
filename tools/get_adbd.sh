#!/bin/sh
# Puts Google's adbd, toybox and mksh with their libraries into a folder: the device that the tests talk to.
#   tools/get_adbd.sh FOLDER
set -eu
exec "$(dirname "$0")/phone/get_packages.sh" "$1" "$(dpkg --print-architecture)" adbd toybox mksh
