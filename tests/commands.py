"""Runs the installed commands, as a user would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(sys.executable).parent


def daf(*arguments: object) -> subprocess.CompletedProcess[str]:
    return _run("daf", *arguments)


def daf_export(*arguments: object) -> subprocess.CompletedProcess[str]:
    return _run("daf-export", *arguments)


def _run(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPTS / command, *map(str, arguments)], capture_output=True, text=True)
