"""Records of processes that were killed for memory, as devices print them, and what is said about them."""

from __future__ import annotations

import pytest

from daf.tools.adb.oom import OomRecord, parse_android_log, parse_kernel_log
from daf.tools.memory_advice import RunMemory, explain_kill, fitting_budget_bytes, needed_bytes, warn_of_size

KERNEL = """\
[   12.345678] daf_runner invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0
[   12.345901] Out of memory: Killed process 99 (other) total-vm:5kB, anon-rss:4kB, file-rss:3kB, shmem-rss:0kB, UID:0
[   12.346000] Out of memory: Killed process 214 (daf_runner) total-vm:301208kB, anon-rss:76128kB, file-rss:2432kB, \
shmem-rss:8kB, UID:2000 pgtables:284kB oom_score_adj:0
"""
ANDROID = (
    "11-16 10:00:00.000   500   500 I lowmemorykiller: Kill 'daf_runner' (214), uid 2000, oom_score_adj 0 to free "
    "176128kB rss, 512kB swap; reason: device is low on swap"
)
PLAN = {"weights": 2, "constants": 1, "optimizer": 2, "arena": 90, "pool": 0, "workspace": 5, "peak": 100}
PLAN = {name: value * 10**6 for name, value in PLAN.items()}


def test_the_kernels_record() -> None:
    assert parse_kernel_log(KERNEL, 214) == OomRecord("the kernel", (76128 + 8) * 1024, 2432 * 1024)
    assert parse_kernel_log(KERNEL, 21) is None
    assert parse_kernel_log("", 214) is None


def test_androids_record() -> None:
    assert parse_android_log(ANDROID, 214) == OomRecord("Android's low-memory killer", 176128 * 1024)
    assert parse_android_log(ANDROID, 500) is None


def test_warns_of_what_may_not_fit() -> None:
    assert warn_of_size(PLAN, None, 100 * 10**6) is None
    assert warn_of_size(PLAN, None, None) is None  # a device that does not tell
    assert warn_of_size(PLAN, None, 99 * 10**6) == (
        "the program needs 100.0 MB and the device has 99.0 MB free: it may be killed"
    )
    assert needed_bytes(PLAN, 40 * 10**6) == 45 * 10**6
    assert warn_of_size(PLAN, 40 * 10**6, 50 * 10**6) is None


@pytest.mark.parametrize("stored", [False, True])
def test_says_what_would_fit(stored: bool) -> None:
    memory = RunMemory()
    plan = {**PLAN, "pool": int(stored)}
    memory.add({"type": "header", "available_bytes": 80 * 10**6, "memory_plan": plan})
    text = explain_kill(OomRecord("the kernel", 77 * 10**6, 2 * 10**6), memory, 0)
    assert text.startswith("the kernel killed it after step 0, because memory ran out: it held 79.0 MB, of 80.0 MB")
    assert "it needs 100.0 MB (weights 2.0 MB" in text
    assert ("export it with --activations daf and" in text) != stored
    assert "run it with --budget 63MB" in text
    assert fitting_budget_bytes(memory) == 63 * 10**6


def test_after_a_step_says_what_was_held() -> None:
    memory = RunMemory()
    memory.add({"type": "header", "available_bytes": 5 * 10**6, "memory_plan": PLAN})
    memory.add({"type": "counters", "step": 3, "weights": 2 * 10**6, "arena": 7 * 10**6, "rss": 1})
    text = explain_kill(OomRecord("the kernel", 1), memory, 3)
    assert "after step 3" in text
    assert "(weights 2.0 MB, arena 7.0 MB)" in text
    assert text.endswith("use a smaller model")
