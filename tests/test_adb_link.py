"""Connections: keys and prompts, and devices that do not behave."""

from __future__ import annotations

import random
import socket
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_adbd import fake_adbd

from daf.errors import Exit, UserError
from daf.tools.adb import direct, target
from daf.tools.adb.device import open_device
from daf.tools.adb.direct import DirectLink, ReliableTcpTransport
from daf.tools.adb.keys import load_signer
from daf.tools.adb.link import ConnectionLost


@pytest.fixture(autouse=True)
def _own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_USER_HOME", str(tmp_path / "android"))
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "1")  # no server of this machine takes part
    monkeypatch.delenv("ANDROID_SERIAL", raising=False)


def test_a_key_is_made_once_and_known_after_the_prompt(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with fake_adbd("accepts") as device:
        for _ in range(2):
            with open_device(device.spec):
                pass
    assert device.events == ["signature refused", "prompt", "signature accepted"]
    assert "accept 'Allow USB debugging?'" in capsys.readouterr().err
    key = tmp_path / "android" / "adbkey"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.with_name("adbkey.pub").exists()


@pytest.mark.parametrize("person", ["refuses", "is away"])
def test_an_unauthorised_key(monkeypatch: pytest.MonkeyPatch, person: str) -> None:
    monkeypatch.setattr(target, "AUTH_TIMEOUT_S", 0.3)
    with fake_adbd(person) as device, pytest.raises(UserError) as caught, open_device(device.spec):
        pass
    assert caught.value.exit_code == Exit.DEVICE
    assert "does not accept this computer's key" in str(caught.value)


def test_a_key_without_its_public_half(tmp_path: Path) -> None:
    load_signer()
    public = tmp_path / "android" / "adbkey.pub"
    before = public.read_text()
    public.unlink()
    load_signer()
    assert public.read_text() == before


def test_a_key_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "android").mkdir()
    (tmp_path / "android" / "adbkey").write_text("not a key")
    with pytest.raises(UserError, match="cannot use the adb key .* it is not an RSA key"):
        load_signer()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No patience: what these devices do wrong is done at once."""
    monkeypatch.setattr(direct, "PATIENCE_S", 0.3)
    monkeypatch.setattr(target, "AUTH_TIMEOUT_S", 0.3)


def serve(answers: Iterator[bytes]) -> str:
    """A server that sends one answer to each connection and then waits."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            connection.sendall(answer)
            threading.Thread(target=_drain, args=(connection,), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}"


def _drain(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 100, b"CNXN"])
def test_what_is_no_device(answer: bytes) -> None:
    spec = f"adb:{serve(iter([answer]))}"
    with pytest.raises(UserError, match="cannot connect to adb:127.0.0.1"), open_device(spec):
        pass


@pytest.mark.usefixtures("quick")
def test_a_device_that_wants_encryption() -> None:
    command = int.from_bytes(b"STLS", "little")
    answer = struct.pack("<6I", command, 0x01000000, 0, 0, 0, command ^ 0xFFFFFFFF)
    with pytest.raises(UserError, match="wireless debugging"), open_device(f"adb:{serve(iter([answer]))}"):
        pass


@pytest.mark.usefixtures("quick")
def test_random_answers_end_in_an_error() -> None:
    source = random.Random(1)
    answers = [source.randbytes(source.randrange(200)) for _ in range(50)]
    host, port = serve(iter(answers)).split(":")
    for _ in answers:
        link = DirectLink(ReliableTcpTransport(host, int(port)), "device")
        with pytest.raises(ConnectionLost):
            link.connect(load_signer(), lambda: None, 0.3)
        link.close()


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("192.168.1.2:5555", ("192.168.1.2", 5555)),
        ("phone.local:6000", ("phone.local", 6000)),
        ("[::1]:5555", ("::1", 5555)),
        ("0A1B2C3D", None),
        ("host:", None),
        (":5555", None),
        ("host:99999", None),
        ("host:port", None),
    ],
)
def test_addresses(name: str, address: tuple[str, int] | None) -> None:
    assert target._address(name) == address
