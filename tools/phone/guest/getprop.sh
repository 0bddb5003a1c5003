#!/usr/bin/mksh
# As on Android: all properties, or the value of one.
while IFS='=' read -r name value; do
  if [ $# = 0 ]; then
    echo "[$name]: [$value]"
  elif [ "$1" = "$name" ]; then
    echo "$value"
  fi
done </system/build.prop
