"""What the parser makes of what devices print."""

from __future__ import annotations

import pytest

from daf.tools.adb.facts import Facts, parse_facts

PHONE = """
== getprop
[ro.board.platform]: [lahaina]
[ro.build.version.release]: [14]
[ro.build.version.sdk]: [34]
[ro.product.cpu.abi]: [arm64-v8a]
[ro.product.manufacturer]: [Acme]
[ro.product.model]: [Phone 5]
[ro.soc.model]: [SM8350]
== uname
Linux
5.4.210
aarch64
== model
== meminfo
MemTotal:        7763448 kB
MemFree:          230000 kB
MemAvailable:    3100000 kB
== df
Filesystem      1K-blocks     Used Available Use% Mounted on
/dev/block/dm-9 112345678 60000000  52000000  54% /data/local/tmp
== battery
Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  level: 85
  scale: 100
  temperature: 312
== thermal
Thermal Status: 1
== zones
41200
0
-40000
47800
== gpu
vulkan.adreno.so
libOpenCL.so
== runner
{"daf_version": "0.1.0", "platform": "android-arm64-v8a", "sha256": "00"}
== app
    versionName=0.1.0
"""

SMALL = """
== getprop
== uname
Linux
6.12.1
x86_64
== model

model name	: Some CPU
== meminfo
MemTotal: 1000 kB
== df
Filesystem     1K-blocks Used Available Use% Mounted on
a-device-with-a-very-long-name
                    1024   24      1000   3% /data/local/tmp
== battery
== thermal
== zones
== gpu
== runner
== app
"""


def test_a_phone() -> None:
    assert parse_facts(PHONE) == Facts(
        model="Acme Phone 5",
        soc="SM8350",
        os="Android 14 (API 34)",
        platform="android-arm64-v8a",
        ram_free_bytes=3_100_000 * 1024,
        ram_bytes=7_763_448 * 1024,
        storage_free_bytes=52_000_000 * 1024,
        gpu="Vulkan, OpenCL",
        battery="85 %, charging, 31.2 °C",
        thermal="throttling light, 47.8 °C",
        runner="0.1.0",
        app="0.1.0",
    )


def test_a_device_that_is_not_android() -> None:
    assert parse_facts(SMALL) == Facts(
        model="Some CPU",
        os="Linux 6.12.1",
        platform="linux-x86_64",
        ram_bytes=1000 * 1024,
        storage_free_bytes=1000 * 1024,
    )


@pytest.mark.parametrize("text", ["", "nonsense", "== df\nnone", "== runner\n[1]", "== runner\n{}\n== uname\n", "== x"])
def test_nonsense_is_no_error(text: str) -> None:
    assert isinstance(parse_facts(text), Facts)
