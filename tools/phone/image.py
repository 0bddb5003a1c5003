"""What a virtual phone boots from: kernel, initramfs, system image and an empty data disk, made once and cached.

The kernel and every program come from Debian packages for arm64; the scripts in guest/ join them.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import lzma
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from daf.errors import Exit, UserError
from daf.tools.phone.cpio import Cpio

_HERE = Path(__file__).parent
_GUEST = _HERE / "guest"
_PACKAGES = ("adbd", "toybox", "mksh", "busybox-static", "kernel")
# In the order in which they need each other.
_MODULES = ("virtio_mmio", "virtio_blk", "failover", "net_failover", "virtio_net")
_SYSTEM_BYTES = 64 << 20
DATA_BYTES = 2 << 30  # sparse
_TOYS = [
    "basename",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "clear",
    "cmp",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "dmesg",
    "du",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "free",
    "grep",
    "head",
    "hostname",
    "id",
    "kill",
    "killall",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mktemp",
    "mount",
    "mv",
    "nice",
    "nohup",
    "od",
    "pgrep",
    "pidof",
    "pkill",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "renice",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sha1sum",
    "sha256sum",
    "sleep",
    "sort",
    "split",
    "stat",
    "stty",
    "sync",
    "tail",
    "tar",
    "tee",
    "test",
    "time",
    "timeout",
    "top",
    "touch",
    "tr",
    "true",
    "truncate",
    "uname",
    "uniq",
    "uptime",
    "vmstat",
    "wc",
    "which",
    "whoami",
    "xargs",
    "yes",
]


@dataclass(frozen=True)
class Image:
    folder: Path

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel"

    @property
    def initramfs(self) -> Path:
        return self.folder / "initramfs.gz"

    @property
    def system(self) -> Path:
        return self.folder / "system.ext4"

    @property
    def data(self) -> Path:
        return self.folder / "data.ext4"


def get_image(say: Callable[[str], None]) -> Image:
    """The cached image; made first if there is none, or if what it is made from has changed."""
    cache = cache_folder()
    image = Image(cache / f"image-{_recipe_hash()}")
    if image.folder.is_dir():
        return image
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        if not image.folder.is_dir():  # another process may have made it meanwhile
            say("making the image of the virtual phone (once; downloads 40 MB)")
            for old in cache.glob("image-*"):
                shutil.rmtree(old, ignore_errors=True)
            _make(image, cache)
    return image


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "daf" / "phone"


def _recipe_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted([*_GUEST.iterdir(), *_HERE.glob("*.sh"), Path(__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(image: Image, cache: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as name:
        work = Path(name)
        packages = work / "packages"
        _run("get packages of Debian", str(_HERE / "get_packages.sh"), str(packages), "arm64", *_PACKAGES)
        made = Image(work / "image")
        made.folder.mkdir()
        (kernel,) = packages.glob("boot/vmlinuz-*")
        shutil.copy(kernel, made.kernel)
        _write_initramfs(packages, made.initramfs)
        _lay_out_system(packages, work / "system")
        _make_file_system(made.system, _SYSTEM_BYTES, work / "system")
        _make_file_system(made.data, DATA_BYTES, None)
        made.folder.rename(image.folder)


def _write_initramfs(packages: Path, path: Path) -> None:
    archive = Cpio()
    for folder in ("bin", "dev", "sys", "modules", "phone"):
        archive.add_folder(folder)
    archive.add_file("init", (_GUEST / "initramfs_init.sh").read_bytes(), 0o755)
    archive.add_file("bin/busybox", (packages / "usr/bin/busybox").read_bytes(), 0o755)
    archive.add_device("dev/console", 5, 1)
    for index, name in enumerate(_MODULES):
        (module,) = packages.glob(f"usr/lib/modules/*/kernel/**/{name}.ko*")
        data = module.read_bytes()
        archive.add_file(f"modules/{index}-{name}.ko", lzma.decompress(data) if module.suffix == ".xz" else data, 0o644)
    path.write_bytes(gzip.compress(archive.data(), 6))


def _lay_out_system(packages: Path, root: Path) -> None:
    """An Android-like root, with libraries where Debian has them."""
    for folder in ("bin", "data", "dev", "etc", "proc", "sys", "system", "tmp", "usr/bin", "usr/lib"):
        (root / folder).mkdir(parents=True)
    for name in ("busybox", "mksh", "toybox"):
        shutil.copy(packages / "usr/bin" / name, root / "usr/bin")
    for name in ("aarch64-linux-gnu", "android-sdk"):
        shutil.copytree(packages / "usr/lib" / name, root / "usr/lib" / name, symlinks=True)
    shutil.copy(packages / "usr/lib/ld-linux-aarch64.so.1", root / "usr/lib", follow_symlinks=False)
    (root / "lib").symlink_to("usr/lib")
    (root / "system/bin").symlink_to("/bin")
    for name in _TOYS:
        (root / "bin" / name).symlink_to("/usr/bin/toybox")
    for source, target in (("init.sh", "init"), ("sh.sh", "bin/sh"), ("getprop.sh", "bin/getprop")):
        shutil.copy(_GUEST / source, root / target)
        (root / target).chmod(0o755)
    shutil.copy(_GUEST / "build.prop", root / "system/build.prop")
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nshell:x:2000:2000::/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nshell:x:2000:\n")


def _make_file_system(path: Path, size_bytes: int, content: Path | None) -> None:
    command = ["mke2fs", "-q", "-t", "ext4", "-m", "0", "-O", "^has_journal", "-E", "root_owner=0:0,lazy_itable_init=1"]
    if content is not None:
        command += ["-d", str(content)]
    environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}  # users may not have these
    _run("make a file system", *command, str(path), f"{size_bytes // 1024}k", environment=environment)


def _run(action: str, *command: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise UserError(f"cannot {action} for the virtual phone: {said}; call this again", Exit.DEVICE)
