#!/usr/bin/mksh
# The first process of the system: an Android-like root with Google's adbd as the user `shell`, which comes back when
# it dies. The kernel must not choose these two when memory runs out; /bin/sh gives up that protection.
b=/usr/bin/busybox
export PATH=/bin
$b mount -t proc proc /proc
$b mkdir -p /dev/pts /data/local/tmp
$b mount -t devpts -o ptmxmode=666 devpts /dev/pts
$b rm -f /dev/ptmx
$b ln -s pts/ptmx /dev/ptmx
$b chmod 666 /dev/null /dev/zero /dev/random /dev/urandom /dev/tty
$b mount -t tmpfs -o size=1m,mode=1777 tmpfs /tmp
$b chown 2000:2000 /data/local/tmp
$b chmod 771 /data/local/tmp
$b ip link set lo up
$b ip address add 10.0.2.15/24 dev eth0 # what the emulator forwards the port to
$b ip link set eth0 up
echo 0 >/proc/sys/kernel/dmesg_restrict # so that the reason why a process was killed can be read
echo 1 >/proc/sys/vm/overcommit_memory # as on Android: what is asked for is promised, and killed when it is touched
echo 0 >/proc/sys/vm/oom_dump_tasks
echo -1000 >/proc/self/oom_score_adj
(
  while :; do
    ADBD_PORT=5555 $b su -s /usr/bin/mksh shell -c 'exec /usr/lib/android-sdk/platform-tools/adbd' >/dev/null 2>&1
    $b sleep 0.2
  done
) </dev/null &
until $b grep -q ':15B3 .* 0A ' /proc/net/tcp /proc/net/tcp6; do # port 5555, listening
  $b sleep 0.1
done
echo "daf-phone: ready"
while :; do
  wait
  $b sleep 1
done
