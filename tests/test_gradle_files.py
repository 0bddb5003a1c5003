"""The Gradle project, as far as it can be checked without Gradle: versions, ABIs, sources, permissions.

Neither Gradle nor the Android SDK runs here. That Android Studio builds the project is not shown by these tests.
"""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from daf.tools.adb.facts import APP_PACKAGE

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "android"
MAIN = PROJECT / "app/src/main"
ANDROID = "{http://schemas.android.com/apk/res/android}"


def catalog() -> dict[str, dict[str, str]]:
    return tomllib.loads((PROJECT / "gradle/libs.versions.toml").read_text())


def build_file() -> str:
    return (PROJECT / "app/build.gradle.kts").read_text()


def manifest() -> ElementTree.Element:
    return ElementTree.parse(MAIN / "AndroidManifest.xml").getroot()


def test_modules_have_build_files() -> None:
    settings = (PROJECT / "settings.gradle.kts").read_text()
    for module in re.findall(r'include\(":(\w+)"\)', settings):
        assert (PROJECT / module / "build.gradle.kts").exists()


def test_every_alias_is_in_the_catalog() -> None:
    versions = catalog()
    for text in (build_file(), (PROJECT / "build.gradle.kts").read_text()):
        for kind, name in re.findall(r"libs\.(versions|plugins)\.([\w.]+?)(?:\.get\(\)|\))", text):
            assert name.replace(".", "-") in versions[kind], name
        for name in re.findall(r"mplementation\(libs\.([\w.]+)\)", text):
            assert name.replace(".", "-") in versions["libraries"]


def test_versions_belong_together() -> None:
    """Android Gradle plugin 9.1 needs Gradle 9.2.1 and knows API 36; no app below API 26 has java.nio.file."""
    versions = catalog()["versions"]
    wrapper = (PROJECT / "gradle/wrapper/gradle-wrapper.properties").read_text()
    gradle = re.search(r"gradle-([\d.]+)-bin\.zip", wrapper)
    assert gradle
    assert versions["agp"].startswith("9.1.")
    assert tuple(map(int, gradle[1].split("."))) >= (9, 2, 1)
    assert int(versions["minSdk"]) == 26
    assert int(versions["targetSdk"]) <= int(versions["compileSdk"]) <= 36
    assert int(versions["ndk"].split(".")[0]) >= 28  # aligns libraries to 16 KB


def test_native_targets_and_abis_exist() -> None:
    text = build_file()
    assert re.search(r'abiFilters \+= listOf\("arm64-v8a", "x86_64"\)', text)
    path = re.search(r'path = file\("([^"]+)"\)', text)
    assert path
    assert (PROJECT / "app" / path[1]).resolve() == ROOT / "CMakeLists.txt"
    targets = re.search(r"targets \+= listOf\(([^)]+)\)", text)
    assert targets
    declared = "".join(file.read_text() for file in ROOT.glob("runtime_ops/*/CMakeLists.txt"))
    for target in re.findall(r'"(\w+)"', targets[1]):
        assert re.search(rf"add_(library|executable)\({target} ", declared), target


def test_one_version() -> None:
    expression = re.search(r'Regex\("(.+?)"\)\.find\(file\("(.+?)"\)', build_file())
    assert expression
    pyproject = (PROJECT / "app" / expression[2]).read_text()
    found = re.search(expression[1].replace('\\"', '"'), pyproject)
    assert found
    assert found[1] == tomllib.loads(pyproject)["project"]["version"]


def test_every_component_has_a_class_in_the_namespace() -> None:
    assert f'namespace = "{APP_PACKAGE}"' in build_file()
    assert f'applicationId = "{APP_PACKAGE}"' in build_file()
    application = manifest().find("application")
    assert application is not None
    components = [application, *(c for c in application if c.tag in ("activity", "service", "provider", "receiver"))]
    assert len(components) > 4
    for component in components:
        name = component.attrib[f"{ANDROID}name"]
        assert (MAIN / "java" / APP_PACKAGE.replace(".", "/") / f"{name.removeprefix('.')}.java").exists(), name


def test_permissions_are_those_of_a_foreground_service() -> None:
    names = {element.attrib[f"{ANDROID}name"].rpartition(".")[2] for element in manifest().iter("uses-permission")}
    assert names == {"FOREGROUND_SERVICE", "FOREGROUND_SERVICE_SPECIAL_USE", "POST_NOTIFICATIONS"}


def test_what_is_exported_is_guarded() -> None:
    """The launcher's activity must be open; it starts nothing by itself. The service is for who holds DUMP."""
    application = manifest().find("application")
    assert application is not None
    exported = {}
    for component in application:
        if component.tag == "uses-native-library":
            continue
        assert component.attrib.get(f"{ANDROID}exported") in ("true", "false"), component.attrib
        if component.attrib[f"{ANDROID}exported"] == "true":
            exported[component.attrib[f"{ANDROID}name"]] = component.attrib.get(f"{ANDROID}permission")
    assert exported == {".MainActivity": None, ".RunService": "android.permission.DUMP"}


def test_names_of_opencl_are_in_the_manifest() -> None:
    """Since Android 12 an app opens a library of the vendor only if its manifest names it."""
    opened = re.findall(r'"(lib\w+\.so)"', (ROOT / "runtime_ops/gpu/opencl/api.cpp").read_text())
    libraries = [element.attrib for element in manifest().iter("uses-native-library")]
    assert [library[f"{ANDROID}name"] for library in libraries] == opened
    assert all(library[f"{ANDROID}required"] == "false" for library in libraries)


def test_every_field_has_a_label() -> None:
    """What TalkBack reads for it."""
    fields, labelled = set(), set()
    for layout in (MAIN / "res/layout").glob("*.xml"):
        for view in ElementTree.parse(layout).iter():
            if view.tag in ("EditText", "Spinner"):
                fields.add(view.attrib[f"{ANDROID}id"].rpartition("/")[2])
            if (target := view.attrib.get(f"{ANDROID}labelFor")) is not None:
                assert view.attrib[f"{ANDROID}text"].startswith("@string/")
                labelled.add(target.rpartition("/")[2])
    assert {"data", "steps", "budget", "threads", "reduce"} <= fields == labelled


def test_every_text_is_a_resource() -> None:
    for layout in (MAIN / "res/layout").glob("*.xml"):
        for text in re.findall(r'android:(?:text|hint|contentDescription)="([^"]+)"', layout.read_text()):
            assert text.startswith("@string/") or text.isdigit(), f"{layout.name}: {text}"
