"""`daf devices`: what there is to train on."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from daf.errors import UserError
from daf.text import format_bytes, format_table

if TYPE_CHECKING:
    from daf.tools.adb.facts import Facts


@click.command(short_help="List the devices to train on.")
@click.option("--device", multiple=True, metavar="DEVICE", help="Also look at this one: adb:HOST:PORT.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def devices(device: tuple[str, ...], as_json: bool) -> None:
    """List this machine, phones on USB, and those that an adb server holds.

    \b
    Examples:
      daf devices
      daf devices --device adb:192.168.1.20:5555
      daf devices --json
    """
    found = [_local(), *(_seen(spec, state) for spec, state in _specs(device))]
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for index, item in enumerate(found):
        click.echo(("\n" if index else "") + format_table(_rows(item)))


def _specs(extra: tuple[str, ...]) -> list[tuple[str, str]]:
    from daf.tools.adb.target import all_targets

    listed = [(str(target), state) for target, state in all_targets()]
    return listed + [(spec, "device") for spec in extra if spec not in dict(listed)]


def _local() -> dict[str, Any]:
    pages, page_bytes = os.sysconf("SC_AVPHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    disk = os.statvfs(".")
    return {
        "device": "local",
        "state": "device",
        "model": platform.node(),
        "os": f"{platform.system()} {platform.release()}",
        "platform": f"{platform.system().lower()}-{platform.machine()}",
        "ram_free_bytes": pages * page_bytes,
        "ram_bytes": os.sysconf("SC_PHYS_PAGES") * page_bytes,
        "storage_free_bytes": disk.f_bavail * disk.f_frsize,
    }


def _seen(spec: str, state: str) -> dict[str, Any]:
    item: dict[str, Any] = {"device": spec, "state": state}
    if state != "device":
        return item
    from daf.tools.adb.device import open_device
    from daf.tools.adb.facts import read_facts

    try:
        with open_device(spec) as device:
            facts: Facts = read_facts(device)
    except UserError as error:
        return {**item, "state": str(error)}
    return {**item, **asdict(facts)}


def _rows(item: dict[str, Any]) -> list[tuple[str, str]]:
    def size(name: str) -> str:
        return "" if item.get(name) is None else format_bytes(item[name])

    rows = [("device", item["device"])]
    if item["state"] != "device":
        rows.append(("state", item["state"]))
    rows += [(name, str(item.get(name) or "")) for name in ("model", "soc", "os", "platform")]
    if size("ram_free_bytes"):
        rows.append(("memory", f"{size('ram_free_bytes')} free of {size('ram_bytes')}"))
    rows.append(("storage", f"{size('storage_free_bytes')} free" if size("storage_free_bytes") else ""))
    rows += [(name, str(item.get(name) or "")) for name in ("gpu", "battery", "thermal")]
    if "runner" in item:
        rows += [(name, item[name] or "not installed") for name in ("runner", "app")]
    return [row for row in rows if row[1]]
