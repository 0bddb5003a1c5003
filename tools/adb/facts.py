"""What a device is and how it is: one script collects it, a pure parser reads what the script printed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from daf.tools.adb.device import AdbDevice

FOLDER = "/data/local/tmp/daf"  # where daf keeps its files on a device
RUNNER_INFO = f"{FOLDER}/runner/info.json"
APP_PACKAGE = "org.dafmobile.app"

# Sections begin with a line `== name`. Commands that a device does not have print nothing.
_SCRIPT = f"""
exec 2>/dev/null
echo '== getprop'; getprop
echo '== uname'; uname -s; uname -r; uname -m
echo '== model'; cat /proc/device-tree/model /sys/class/dmi/id/product_name; echo; grep -m1 'model name' /proc/cpuinfo
echo '== meminfo'; cat /proc/meminfo
echo '== df'; df -k /data/local/tmp
echo '== battery'; dumpsys battery
echo '== thermal'; dumpsys thermalservice | grep 'Thermal Status'
echo '== zones'; cat /sys/class/thermal/thermal_zone*/temp
echo '== gpu'; ls /vendor/lib64/hw /system/lib64/hw /vendor/lib64 | grep -E '^(vulkan|libOpenCL|libPVROCL|libGLES_mali)'
echo '== runner'; cat {RUNNER_INFO}; echo
echo '== app'; dumpsys package {APP_PACKAGE} | grep -m1 versionName
"""
_THERMAL_NAMES = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")


@dataclass(frozen=True)
class Facts:
    model: str = ""
    soc: str = ""
    os: str = ""
    platform: str = ""  # what a runner is built for: android-arm64-v8a, linux-x86_64
    ram_free_bytes: int | None = None
    ram_bytes: int | None = None
    storage_free_bytes: int | None = None
    gpu: str = ""
    battery: str = ""
    thermal: str = ""
    runner: str = ""  # version, if one is installed
    app: str = ""


def read_facts(device: AdbDevice) -> Facts:
    return parse_facts(device.run_script(_SCRIPT).output)


def parse_facts(text: str) -> Facts:
    sections = _sections(text)
    properties = dict(re.findall(r"^\[([^\]]+)\]: \[([^\]]*)\]", sections.get("getprop", ""), re.M))
    system = [*sections.get("uname", "").split("\n"), "", "", ""]
    abi = properties.get("ro.product.cpu.abi", "")
    memory = _kilobytes(sections.get("meminfo", ""))
    return Facts(
        model=_model(properties, sections.get("model", "")),
        soc=properties.get("ro.soc.model") or properties.get("ro.board.platform", ""),
        os=_system_name(properties) or f"{system[0]} {system[1]}".strip(),
        platform=f"android-{abi}" if abi else f"{system[0].lower()}-{system[2]}",
        ram_free_bytes=memory.get("MemAvailable"),
        ram_bytes=memory.get("MemTotal"),
        storage_free_bytes=_free_storage(sections.get("df", "")),
        gpu=_gpu(sections.get("gpu", "")),
        battery=_battery(sections.get("battery", "")),
        thermal=_thermal(sections.get("thermal", ""), sections.get("zones", "")),
        runner=_runner_version(sections.get("runner", "")),
        app=sections.get("app", "").strip().removeprefix("versionName="),
    )


def _sections(text: str) -> dict[str, str]:
    parts = re.split(r"^== (\w+)$\n?", text, flags=re.M)
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _model(properties: dict[str, str], files: str) -> str:
    maker, name = properties.get("ro.product.manufacturer", ""), properties.get("ro.product.model", "")
    if name:
        return name if name.lower().startswith(maker.lower()) else f"{maker} {name}"
    lines = [line.strip("\0 ") for line in files.splitlines()]
    return next((line.rpartition(": ")[2] for line in lines if line), "")


def _system_name(properties: dict[str, str]) -> str:
    release, api = properties.get("ro.build.version.release"), properties.get("ro.build.version.sdk")
    return f"Android {release} (API {api})" if release else ""


def _kilobytes(meminfo: str) -> dict[str, int]:
    return {name: int(value) * 1024 for name, value in re.findall(r"^(\w+): +(\d+) kB", meminfo, re.M)}


def _free_storage(df: str) -> int | None:
    """The fourth column; a long device name may have pushed the numbers to a line of their own."""
    numbers = re.findall(r"(\d+) +(\d+) +(\d+) +\d+%", df)
    return int(numbers[-1][2]) * 1024 if numbers else None


def _gpu(listing: str) -> str:
    names = listing.split()
    found = []
    if any(name.startswith("vulkan.") for name in names):
        found.append("Vulkan")
    if any(name.startswith(("libOpenCL", "libPVROCL", "libGLES_mali")) for name in names):
        found.append("OpenCL")
    return ", ".join(found)


def _battery(dump: str) -> str:
    values = dict(re.findall(r"^\s*([\w ]+): (\S+)$", dump, re.M))
    if "level" not in values:
        return ""
    charging = any(values.get(f"{source} powered") == "true" for source in ("AC", "USB", "Wireless", "Dock"))
    parts = [f"{values['level']} %"] + (["charging"] if charging else [])
    if values.get("temperature", "").isdigit():
        parts.append(f"{int(values['temperature']) / 10:.1f} °C")
    return ", ".join(parts)


def _thermal(status: str, zones: str) -> str:
    parts = []
    number = re.search(r"Thermal Status: (\d+)", status)
    if number and int(number[1]) < len(_THERMAL_NAMES):
        parts.append(f"throttling {_THERMAL_NAMES[int(number[1])]}")
    plausible = [int(value) for value in zones.split() if value.isdigit() and 1_000 <= int(value) <= 150_000]
    if plausible:
        parts.append(f"{max(plausible) / 1000:.1f} °C")
    return ", ".join(parts)


def _runner_version(text: str) -> str:
    try:
        version = json.loads(text)["daf_version"]
    except (ValueError, KeyError, TypeError):
        return ""
    return version if isinstance(version, str) else ""
