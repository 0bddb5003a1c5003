"""What must be true of an APK: each check returns a line that says what was found, or fails."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from daf.errors import Exit, UserError
from daf.tools.adb.facts import APP_PACKAGE
from daf.tools.apk.elf import Library, NotElf, read_library
from daf.tools.apk.package import LABEL, LIBRARY_PAGE_BYTES, read_versions
from daf.tools.apk.toolchain import Toolchain, run

PERMISSIONS = {"FOREGROUND_SERVICE", "FOREGROUND_SERVICE_DATA_SYNC", "POST_NOTIFICATIONS"}
# Public libraries of the system: what an app may need besides its own.
SYSTEM_LIBRARIES = {"libandroid.so", "libc.so", "libdl.so", "liblog.so", "libm.so", "libz.so"}
_NAME = "{http://schemas.android.com/apk/res/android}name"


def check_apk(tools: Toolchain, project: Path, apk: Path) -> Iterator[str]:
    yield _check_signature(apk, read_versions(project)["minSdk"])
    yield _check_badging(tools, project, apk)
    yield _check_label(tools, apk)
    yield _check_classes(project, apk)
    yield _check_alignment(apk)
    yield from check_libraries(apk)


def _fail(apk: Path, what: str) -> UserError:
    return UserError(f"the check of {apk} failed: {what}", Exit.CHECK_FAILED)


def _check_signature(apk: Path, min_sdk: str) -> str:
    said = run("apksigner", "verify", "--verbose", "--min-sdk-version", min_sdk, apk)
    for scheme in ("v2", "v3"):
        if not re.search(rf"^Verified using {scheme} scheme .*: true$", said, re.M):
            raise _fail(apk, f"it has no {scheme} signature")
    return "signature   v2 and v3"


def _check_badging(tools: Toolchain, project: Path, apk: Path) -> str:
    versions = read_versions(project)
    said = tools.aapt("dump", "badging", apk)
    package = re.search(r"^package: name='([^']*)' versionCode='[^']*' versionName='([^']*)'", said, re.M)
    if not package or package.groups() != (APP_PACKAGE, versions["daf"]):
        raise _fail(apk, f"it is not {APP_PACKAGE} {versions['daf']}")
    for name, key in (("sdkVersion", "minSdk"), ("targetSdkVersion", "targetSdk")):
        if f"{name}:'{versions[key]}'" not in said:
            raise _fail(apk, f"its {name} is not {versions[key]}")
    found = set(re.findall(r"^uses-permission: name='android\.permission\.(\w+)'", said, re.M))
    if found != PERMISSIONS or said.count("uses-permission") != len(PERMISSIONS):
        raise _fail(apk, f"its permissions are {', '.join(sorted(found))}")
    return (
        f"badging     {APP_PACKAGE} {versions['daf']}, API {versions['minSdk']} to {versions['targetSdk']}, no network"
    )


def _check_label(tools: Toolchain, apk: Path) -> str:
    if LABEL not in tools.aapt("dump", "strings", apk):
        raise _fail(apk, "it does not say that it is a check build")
    return "label       says that it is a check build"


def _check_classes(project: Path, apk: Path) -> str:
    with TemporaryDirectory() as folder, zipfile.ZipFile(apk) as archive:
        said = run("dexdump", "-f", archive.extract("classes.dex", folder))
    found = set(re.findall(r"Class descriptor  : 'L([^;]+);'", said))
    manifest = ElementTree.parse(project / "app/src/main/AndroidManifest.xml")
    prefix = APP_PACKAGE.replace(".", "/")
    declared = {element.attrib[_NAME] for element in manifest.iter() if element.attrib.get(_NAME, "").startswith(".")}
    expected = {f"{prefix}/{name.removeprefix('.')}" for name in declared} | {"org/dafmobile/core/NativeRun"}
    if missing := expected - found:
        raise _fail(apk, f"it has no class {min(missing)}")
    if foreign := {name for name in found if not name.startswith("org/dafmobile/")}:
        raise _fail(apk, f"it has the class {min(foreign)}, which is not ours")
    return f"classes     {len(found)}, all components among them"


def _check_alignment(apk: Path) -> str:
    run("zipalign", "-c", "-p", "4", apk)
    return "alignment   zipalign has nothing to say"


def check_libraries(apk: Path) -> Iterator[str]:
    libraries: dict[str, dict[str, Library]] = {}
    with zipfile.ZipFile(apk) as archive:
        for entry in archive.infolist():
            if not entry.filename.endswith(".so"):
                continue
            _, abi, name = entry.filename.split("/")
            try:
                library = read_library(archive.read(entry))
            except NotElf as problem:
                raise _fail(apk, f"{entry.filename} cannot be loaded: {problem}") from None
            if library.abi != abi:
                raise _fail(apk, f"{entry.filename} is for {library.abi}")
            if library.page_bytes % LIBRARY_PAGE_BYTES != 0:
                raise _fail(apk, f"{entry.filename} is aligned to {library.page_bytes} bytes, not to 16 KB pages")
            if entry.compress_type != zipfile.ZIP_STORED or _data_offset(archive, entry) % LIBRARY_PAGE_BYTES != 0:
                raise _fail(apk, f"{entry.filename} is not where the system can map it: not stored at a 16 KB page")
            libraries.setdefault(abi, {})[name] = library
    if not libraries:
        yield "libraries   none: the app starts, and says that it cannot train"
    for abi, found in libraries.items():
        for name, library in found.items():
            if missing := set(library.needed) - SYSTEM_LIBRARIES - set(found):
                raise _fail(apk, f"lib/{abi}/{name} needs {min(missing)}, which neither the APK nor the system has")
        yield f"libraries   {abi}: {', '.join(sorted(found))}; 16 KB pages, nothing they need is missing"


def _data_offset(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    assert archive.fp is not None
    archive.fp.seek(entry.header_offset)
    name_bytes, extra_bytes = struct.unpack("<HH", archive.fp.read(30)[26:30])
    return entry.header_offset + 30 + int(name_bytes) + int(extra_bytes)
