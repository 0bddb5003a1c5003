#!/bin/busybox sh
# The kernel's first process: loads what reaches the disks, and goes on in the system image.
b=/bin/busybox
$b mount -t devtmpfs devtmpfs /dev
$b mount -t sysfs sysfs /sys
for module in /modules/*.ko; do # named in the order in which they are needed
  $b insmod "$module" || echo "daf-phone: cannot load $module"
done
# A disk is known by its serial number: names depend on the order in which they are found.
disk_of() {
  for serial in /sys/block/*/serial; do
    [ "$($b cat "$serial" 2>/dev/null)" = "$1" ] && disk=${serial%/serial} && echo "/dev/${disk##*/}"
  done
}
$b mount -t ext4 -o ro,noatime "$(disk_of system)" /phone || echo "daf-phone: no system image"
$b mount -t ext4 -o noatime "$(disk_of data)" /phone/data || echo "daf-phone: no data disk"
$b mount -o move /dev /phone/dev
$b mount -o move /sys /phone/sys
exec $b switch_root /phone /init
