"""The RSA keys by which devices know this computer: Google adb's own, in ~/.android, made when there is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from daf.errors import Exit, UserError

if TYPE_CHECKING:
    from daf.tools.adb.direct import Signer


def key_path() -> Path:
    return Path(os.environ.get("ANDROID_USER_HOME") or Path.home() / ".android") / "adbkey"


def load_signer() -> Signer:
    from adb_shell.auth.keygen import keygen, write_public_keyfile
    from adb_shell.auth.sign_pythonrsa import PythonRSASigner

    path = key_path()
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:  # for nobody else to read
                keygen(f"{folder}/{path.name}")
                Path(folder, path.name).chmod(0o600)
                Path(folder, path.name).rename(path)
        public = path.with_name(path.name + ".pub")
        if not public.exists():
            write_public_keyfile(str(path), str(public))
        signer: Signer = PythonRSASigner(public.read_text(), path.read_text())
        return signer
    except OSError as error:
        reason = f"{error.strerror or error}; make its folder readable and writable"
    except Exception as error:  # whatever the parsers raise for a file that is no key
        reason = f"it is not an RSA key ({error}); remove it, a new one will be made"
    raise UserError(f"cannot use the adb key {path}: {reason}", Exit.DEVICE)
