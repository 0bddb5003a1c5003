"""The app's logic in a JVM: its own unit tests, and the native engine under JNI's checks."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from commands import daf, daf_export
from java_app import APP, java, native_libraries

from daf.tools.trace.summary import summarize

PACKAGE = "org.dafmobile.core"


def test_unit_tests(app_classes: Path) -> None:
    names = [path.stem for path in (APP / "src/test/java").rglob("*Test.java") if path.stem != "NativeRunTest"]
    assert len(names) >= 8
    command = java(app_classes, "org.junit.runner.JUnitCore", *(f"{PACKAGE}.{name}" for name in names))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "OK (" in done.stdout


def test_logic_knows_nothing_of_android() -> None:
    for path in (APP / "src/main/java/org/dafmobile/core").glob("*.java"):
        assert "import android" not in path.read_text(), path.name


@pytest.fixture(scope="module")
def daf_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("daf_program") / "cnn.pte"
    done = daf_export("cnn_digits", "--optimizer", "sgd", "--batch-size", "8", "--activations", "daf", "-o", program)
    assert done.returncode == 0, done.stderr
    return program


def test_native_engine(app_classes: Path, daf_program: Path, tmp_path: Path) -> None:
    """Under -Xcheck:jni, 1,000 times load, train, trim, fail, close; and the losses are those of `daf run`."""
    folder = tmp_path / "native"
    folder.mkdir()
    trace, local = tmp_path / "jvm.trace", tmp_path / "local.trace"
    command = java(
        app_classes,
        # A heap that is all there from the start: what grows is native.
        *("-Xcheck:jni", "-XX:+UseSerialGC", "-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch"),
        f"-Djava.library.path={native_libraries(folder)}",
        *(f"-Ddaf.program={daf_program}", f"-Ddaf.trace={trace}", f"-Ddaf.version={metadata.version('daf-mobile')}"),
        *("org.junit.runner.JUnitCore", f"{PACKAGE}.NativeRunTest"),
    )
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK (10 tests)" in done.stdout
    print(done.stdout)
    for complaint in ("WARNING in native method", "WARNING: JNI", "FATAL ERROR in native", "Handler was modified"):
        assert complaint not in done.stdout + done.stderr
    ran = daf("run", daf_program, "--steps", 20, "--trace", local)
    assert ran.returncode == 0, ran.stderr
    assert summarize(trace).losses.points() == summarize(local).losses.points()
