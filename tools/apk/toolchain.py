"""The tools that make and check an APK, from packages alone: where they are, and how to get what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daf.errors import Exit, UserError

FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
_COMMANDS = {
    "javac": "openjdk-17-jdk-headless",
    "java": "openjdk-17-jdk-headless",
    "keytool": "openjdk-17-jdk-headless",
    "apksigner": "apksigner",
    "zipalign": "zipalign",
    "dexdump": "dexdump",
}


@dataclass(frozen=True)
class Toolchain:
    aapt2: Path
    d8: Path
    android_jar: Path
    framework: Path

    def aapt(self, *words: object) -> str:
        return run(self.aapt2, *words)

    def dex(self, *words: object) -> str:
        return run("java", "-cp", self.d8, "com.android.tools.r8.D8", *words)


def find_toolchain() -> Toolchain:
    missing = sorted({package for command, package in _COMMANDS.items() if shutil.which(command) is None})
    if not FRAMEWORK.exists():
        missing.append("android-framework-res")
    if missing:
        raise UserError(
            f"cannot build an APK: Debian packages are missing; apt-get install {' '.join(missing)}", Exit.USAGE
        )
    folder = Path(sys.prefix) / "apk-tools"
    found = Toolchain(folder / "aapt2", folder / "d8.jar", folder / "android.jar", FRAMEWORK)
    for path in (found.aapt2, found.d8, found.android_jar):
        if not path.exists():
            raise UserError(
                f"cannot build an APK: {path} is missing; get it with tools/get_apk_tools.sh {folder}", Exit.USAGE
            )
    return found


def run(*words: object) -> str:
    """What a tool printed; what it says when it fails is the error."""
    command = [str(word) for word in words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise UserError(f"cannot build the APK: {_name(command)} failed:\n{done.stdout.strip()}", Exit.CHECK_FAILED)
    return done.stdout


def _name(command: Sequence[str]) -> str:
    return "D8" if "com.android.tools.r8.D8" in command else Path(command[0]).name
