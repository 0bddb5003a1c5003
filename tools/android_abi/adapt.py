"""Makes the prebuilt Android ExecuTorch usable for the check.

adapt.py header SOURCE TARGET    evalue.h with the accessors that newer headers have
adapt.py library SOURCE TARGET   a library without symbol versions: glibc has none called LIBC
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

_ACCESSORS = {
    "Bool": "bool",
    "Int": "int64_t",
    "String": "std::string_view",
    "IntList": "executorch::aten::ArrayRef<int64_t>",
    "TensorList": "executorch::aten::ArrayRef<executorch::aten::Tensor>",
}
_DYNAMIC = 2
_VERSION_TAGS = (0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF)
_IGNORED_TAG = 0x60000042


def adapt_header(text: str) -> str:
    includes = "#include <string_view>\n#include <executorch/runtime/core/error.h>\n"
    includes += "#include <executorch/runtime/core/result.h>\n"
    accessors = "".join(
        f"  ::executorch::runtime::Result<{kind}> tryTo{name}() const {{\n"
        f"    if (!is{name}()) return ::executorch::runtime::Error::InvalidType;\n"
        f"    return {kind}(to{name}());\n  }}\n"
        for name, kind in _ACCESSORS.items()
    )
    at = text.rindex("\n", 0, text.index("bool isBool() const")) + 1
    return (text[:at] + accessors + text[at:]).replace("#pragma once", f"#pragma once\n{includes}", 1)


def adapt_library(data: bytes) -> bytes:
    changed = bytearray(data)
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, _, _, n_bytes = struct.unpack_from("<IIQQQQ", data, table + i * size)
        for at in range(offset, offset + n_bytes, 16) if kind == _DYNAMIC else ():
            if struct.unpack_from("<q", data, at)[0] in _VERSION_TAGS:
                struct.pack_into("<q", changed, at, _IGNORED_TAG)
    return bytes(changed)


if __name__ == "__main__":
    what, source, target = sys.argv[1:]
    if what == "header":
        Path(target).write_text(adapt_header(Path(source).read_text()))
    else:
        Path(target).write_bytes(adapt_library(Path(source).read_bytes()))
