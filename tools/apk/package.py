"""Makes the APK: resources, classes, libraries, archive, signature."""

from __future__ import annotations

import re
import shutil
import struct
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from daf.errors import Exit, UserError
from daf.files import atomic_write
from daf.tools.adb.facts import APP_PACKAGE
from daf.tools.apk.toolchain import Toolchain, run

LABEL = "Check build: made without the Android SDK to check the sources. For use, build with Gradle and the NDK."
LIBRARY_PAGE_BYTES = 16384
# The framework's resources that Debian has are of API 29, which does not know this kind of service yet.
_MANIFEST_CHANGES = {"specialUse": "dataSync", "FOREGROUND_SERVICE_SPECIAL_USE": "FOREGROUND_SERVICE_DATA_SYNC"}


def find_project() -> Path:
    project = Path(__file__).resolve().parents[2] / "android"
    if not (project / "settings.gradle.kts").exists():
        raise UserError("cannot build an APK: the app's sources are not here; call this in a clone of daf", Exit.USAGE)
    return project


def read_versions(project: Path) -> Mapping[str, str]:
    versions: dict[str, str] = tomllib.loads((project / "gradle/libs.versions.toml").read_text())["versions"]
    version = tomllib.loads((project.parent / "pyproject.toml").read_text())["project"]["version"]
    return {**versions, "daf": f"{version}-check"}


def make_apk(tools: Toolchain, project: Path, libraries: Path | None, output: Path) -> None:
    """`libraries` has a folder for each ABI."""
    versions = read_versions(project)
    main = project / "app/src/main"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _link_resources(tools, main, versions, work)
        _compile(tools, main, versions, work)
        _write_archive(work, libraries)
        _sign(work, versions["minSdk"])
        with atomic_write(output) as file, (work / "signed.apk").open("rb") as source:
            shutil.copyfileobj(source, file)


def _link_resources(tools: Toolchain, main: Path, versions: Mapping[str, str], work: Path) -> None:
    shutil.copytree(main / "res", work / "res")
    strings = work / "res/values/strings.xml"
    text = strings.read_text()
    text = re.sub(
        r'<string name="check_build"[^>]*/>', f'<string name="check_build" translatable="false">{LABEL}</string>', text
    )
    text = text.replace('<string name="app_name">DAF Mobile<', '<string name="app_name">DAF Mobile (check)<')
    strings.write_text(text)
    manifest = (main / "AndroidManifest.xml").read_text()
    manifest = manifest.replace("<manifest ", f'<manifest package="{APP_PACKAGE}" ', 1)
    for name, instead in _MANIFEST_CHANGES.items():
        manifest = re.sub(rf"\b{name}\b", instead, manifest)
    (work / "AndroidManifest.xml").write_text(manifest)
    tools.aapt("compile", "--dir", work / "res", "-o", work / "res.zip")
    tools.aapt(
        *("link", "-I", tools.framework, "--manifest", work / "AndroidManifest.xml", "--java", work / "gen"),
        *("--min-sdk-version", versions["minSdk"], "--target-sdk-version", versions["targetSdk"]),
        *("--version-code", "1", "--version-name", versions["daf"], "-o", work / "resources.apk", work / "res.zip"),
    )


def _compile(tools: Toolchain, main: Path, versions: Mapping[str, str], work: Path) -> None:
    """With Java 8's library, which is what Android 8 has; android.jar adds the rest."""
    sources = [*(main / "java").rglob("*.java"), *(work / "gen").rglob("*.java")]
    classes = work / "classes"
    run(
        *("javac", "--release", "8", "-encoding", "UTF-8", "-Xlint:all,-options,-deprecation", "-Werror"),
        *("-cp", tools.android_jar, "-d", classes, *sources),
    )
    files = sorted(classes.rglob("*.class"))
    tools.dex("--release", "--min-api", versions["minSdk"], "--lib", tools.android_jar, "--output", work, *files)


def _write_archive(work: Path, libraries: Path | None) -> None:
    """Aligned as it is written: the system maps libraries and resources straight from the archive."""
    with (
        zipfile.ZipFile(work / "resources.apk") as resources,
        zipfile.ZipFile(work / "unsigned.apk", "w") as archive,
    ):
        for entry in resources.infolist():
            add_entry(
                archive, entry.filename, resources.read(entry), compress=entry.compress_type != zipfile.ZIP_STORED
            )
        add_entry(archive, "classes.dex", (work / "classes.dex").read_bytes(), compress=False)
        for path in sorted(libraries.glob("*/*.so")) if libraries else []:
            add_entry(archive, f"lib/{path.parent.name}/{path.name}", path.read_bytes(), compress=False)


def add_entry(archive: zipfile.ZipFile, name: str, data: bytes, compress: bool) -> None:
    entry = zipfile.ZipInfo(name, (1981, 1, 1, 1, 1, 2))  # the same archive from the same sources
    entry.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    if not compress:
        align = LIBRARY_PAGE_BYTES if name.endswith(".so") else 4
        assert archive.fp is not None
        data_at = archive.fp.tell() + 30 + len(name.encode()) + 6
        padding = -data_at % align
        # A field that means "alignment" (0xD935) and says it, then as many zeros as it takes.
        entry.extra = struct.pack("<HHH", 0xD935, 2 + padding, align) + b"\0" * padding
    archive.writestr(entry, data)


def _sign(work: Path, min_sdk: str) -> None:
    """With the debug key of this machine, as every SDK has one."""
    key = Path.home() / ".android/debug.keystore"
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True)
        run(
            *("keytool", "-genkeypair", "-keystore", key, "-storepass", "android", "-keypass", "android"),
            *("-alias", "androiddebugkey", "-dname", "CN=Android Debug,O=Android,C=US"),
            *("-keyalg", "RSA", "-keysize", "2048", "-validity", "10000"),
        )
    run(
        *("apksigner", "sign", "--ks", key, "--ks-pass", "pass:android", "--key-pass", "pass:android"),
        *("--min-sdk-version", min_sdk, "--v2-signing-enabled", "true", "--v3-signing-enabled", "true"),
        *("--v4-signing-enabled", "false", "--out", work / "signed.apk", work / "unsigned.apk"),
    )
