"""Where what was learned about the speed of reduction is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def reduce_table_path() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "daf" / "reduce.json"
