"""Pages that need no network: a template of page/ with its style, its script and the figures as JSON inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).parent / "page"


def fill_page(name: str, document: dict[str, Any]) -> str:
    """One file: everything is inside, and its policy forbids the browser to fetch anything."""
    # "</script>" or "<!--" in a name would end the script element.
    data = json.dumps(document).replace("<", "\\u003c")
    template = (_PAGE / f"{name}.html").read_text(encoding="utf-8")
    parts = {
        "style": (_PAGE / "page.css").read_text(encoding="utf-8"),
        "script": (_PAGE / f"{name}.js").read_text(encoding="utf-8"),
        "data": data,  # last: nothing in it is replaced again
    }
    for place, text in parts.items():
        template = template.replace(f"/*{place}*/", text, 1)
    return template
