"""The titles of search results: each has the name of its page.

A section called "Why is this bad?" is on every page of a rule. `python -m documentation.search
FOLDER` writes the index of a built site anew.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def with_page_names(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of the index, with `PAGE: SECTION` as the title of a section."""
    pages = {item["location"]: item["title"] for item in items if "#" not in item["location"]}
    return [
        {**item, "title": f"{pages[page]}: {item['title']}"}
        if anchor and pages.get(page) not in {None, item["title"]}
        else dict(item)
        for item in items
        for page, anchor, _ in [item["location"].partition("#")]
    ]


def main() -> None:
    """Rewrite the search index of the site in the folder that is named."""
    file = Path(sys.argv[1]) / "search.json"
    index = json.loads(file.read_text(encoding="utf-8"))
    index["items"] = with_page_names(index["items"])
    file.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
