"""Why a process on a device was killed, if memory was the reason: the kernel's record, or that of Android's killer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from daf.tools.adb.device import AdbDevice


@dataclass(frozen=True)
class OomRecord:
    killer: str
    own_bytes: int  # memory of the process itself
    file_bytes: int = 0  # mapped files: program, libraries

    @property
    def held_bytes(self) -> int:
        return self.own_bytes + self.file_bytes


def read_oom_record(device: AdbDevice, pid: int) -> OomRecord | None:
    kernel = device.run("dmesg")
    record = parse_kernel_log(kernel.output, pid) if kernel.code == 0 else None
    if record is None:  # phones keep their kernel's log to themselves
        record = parse_android_log(device.run("logcat", "-d", "-s", "lowmemorykiller", timeout_s=60.0).output, pid)
    return record


def parse_kernel_log(text: str, pid: int) -> OomRecord | None:
    """`Out of memory: Killed process 123 (daf_runner) total-vm:9kB, anon-rss:8kB, file-rss:7kB, shmem-rss:0kB, ...`"""
    lines = [line for line in text.splitlines() if re.search(rf"Killed process {pid} \(", line)]
    if not lines:
        return None
    kilobytes = {name: int(value) for name, value in re.findall(r"([\w-]+):(\d+)kB", lines[-1])}
    own = kilobytes.get("anon-rss", 0) + kilobytes.get("shmem-rss", 0)
    return OomRecord("the kernel", own * 1024, kilobytes.get("file-rss", 0) * 1024)


def parse_android_log(text: str, pid: int) -> OomRecord | None:
    """`lowmemorykiller: Kill 'daf_runner' (123), uid 2000, oom_score_adj 0 to free 8kB rss, 0kB swap; reason: ...`"""
    found = re.findall(rf"Kill '[^']*' \({pid}\).* to free (\d+)kB rss", text)
    return OomRecord("Android's low-memory killer", int(found[-1]) * 1024) if found else None
