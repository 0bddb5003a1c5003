#!/bin/sh
# The first process of the test device, in namespaces of its own: an Android-like root with mksh, toybox and
# Google's adbd as the user `shell`, which comes back when it is killed.
#   device_init.sh ROOT IMAGE PRELOAD DATA_BYTES PORT...
set -eu
root=$1 image=$2 preload=$3 data_bytes=$4
shift 4
mount --make-rprivate /
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir -p usr bin etc proc dev/pts data/local/tmp tmp system sys/class/thermal/thermal_zone0
mount --bind -o ro "$image/usr" usr
ln -s usr/lib lib
ln -s usr/lib64 lib64
ln -s /bin system/bin
for name in $(chroot . /usr/bin/toybox); do
  ln -s /usr/bin/toybox "bin/$name"
done
ln -sf /usr/bin/mksh bin/sh
mount -t proc proc proc
for node in null zero urandom random tty; do
  touch "dev/$node"
  mount --bind "/dev/$node" "dev/$node"
done
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
chmod 1777 tmp
mount -t tmpfs -o "size=$data_bytes,mode=771,uid=2000,gid=2000" tmpfs data/local/tmp
echo "shell:x:2000:2000::/:/bin/sh" >etc/passwd
echo "shell:x:2000:" >etc/group
echo 41500 >sys/class/thermal/thermal_zone0/temp
if [ "$preload" = - ]; then
  preload=
else
  cp "$preload" preload.so
  preload=/preload.so
fi
for port in "$@"; do
  env -i /usr/sbin/chroot --userspec=2000:2000 . /bin/sh -c \
    "while :; do ADBD_PORT=$port LD_PRELOAD=$preload /usr/lib/android-sdk/platform-tools/adbd; sleep 0.2; done" </dev/null >/dev/null 2>&1 &
done
echo ready
while :; do
  wait || :
  sleep 0.2
done
