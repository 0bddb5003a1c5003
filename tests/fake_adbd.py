"""A device that only shakes hands: it asks for a key, as a phone does, which Debian's adbd does not.

The key is checked for real: a phone knows the public key and verifies the signature of its token.
"""

from __future__ import annotations

import base64
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA1

_HEADER = struct.Struct("<6I")


class FakeAdbd:
    def __init__(self, person: str) -> None:
        self.person = person
        self.known_key: rsa.RSAPublicKey | None = None
        self.events: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def spec(self) -> str:
        return f"adb:127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self._shake_hands(connection)

    def _shake_hands(self, connection: socket.socket) -> None:
        token = os.urandom(20)
        while (message := _receive(connection)) is not None:
            command, kind, data = message
            if command == b"CNXN":
                _send(connection, b"AUTH", 1, 0, token)
            elif command == b"AUTH" and kind == 2:
                if self._verify(token, data):
                    self.events.append("signature accepted")
                    _send(connection, b"CNXN", 0x01000001, 1 << 20, b"device::\0")
                else:
                    self.events.append("signature refused")
                    _send(connection, b"AUTH", 1, 0, token)
            elif command == b"AUTH" and kind == 3:
                self.events.append("prompt")
                if self.person == "refuses":
                    return
                if self.person == "is away":
                    continue
                self.known_key = _parse_key(data)
                _send(connection, b"CNXN", 0x01000001, 1 << 20, b"device::\0")
            else:
                return

    def _verify(self, token: bytes, signature: bytes) -> bool:
        if self.known_key is None:
            return False
        try:
            self.known_key.verify(signature, token, padding.PKCS1v15(), utils.Prehashed(SHA1()))
        except InvalidSignature:
            return False
        return True


@contextmanager
def fake_adbd(person: str) -> Iterator[FakeAdbd]:
    """The person at the phone accepts its prompt, refuses, or is away."""
    device = FakeAdbd(person)
    try:
        yield device
    finally:
        device.close()


def _parse_key(data: bytes) -> rsa.RSAPublicKey:
    """Android's form: words, a Montgomery constant, the modulus, another constant, the exponent; then a name."""
    blob = base64.b64decode(data.partition(b" ")[0])
    words, _ = struct.unpack_from("<II", blob)
    modulus = int.from_bytes(blob[8 : 8 + 4 * words], "little")
    (exponent,) = struct.unpack_from("<I", blob, 8 + 8 * words)
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def _send(connection: socket.socket, command: bytes, first: int, second: int, data: bytes) -> None:
    number = int.from_bytes(command, "little")
    connection.sendall(_HEADER.pack(number, first, second, len(data), sum(data), number ^ 0xFFFFFFFF) + data)


def _receive(connection: socket.socket) -> tuple[bytes, int, bytes] | None:
    header = _read(connection, _HEADER.size)
    if len(header) < _HEADER.size:
        return None
    command, first, _, length, checksum, _ = _HEADER.unpack(header)
    data = _read(connection, length)
    assert sum(data) & 0xFFFFFFFF == checksum
    return command.to_bytes(4, "little"), first, data


def _read(connection: socket.socket, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        more = connection.recv(size_bytes - len(data))
        if not more:
            break
        data += more
    return data
