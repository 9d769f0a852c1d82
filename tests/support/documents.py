"""The README and the pages below `docs`, and their fenced blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = ("README.md", *(str(page.relative_to(ROOT)) for page in PAGES))


@dataclass(frozen=True)
class Fence:
    """One fenced block: its lines are `first` to `last` of the document, counted from 0."""

    language: str
    title: str
    content: str
    comment: str
    """The HTML comment in the line before the block."""
    first: int
    last: int


def fences(document: str, language: str = "") -> Iterator[Fence]:
    """Yield the fenced blocks of a document, of one language if it is given."""
    before = ""
    for token in MarkdownIt().parse((ROOT / document).read_text(encoding="utf-8")):
        if token.type == "fence" and token.map is not None:
            name, _, rest = token.info.partition(" ")
            title = re.fullmatch(r'title="(.*)"', rest)
            fence = Fence(
                language=name,
                title=title[1] if title else "",
                content=token.content,
                comment=before,
                first=token.map[0] + 1,
                last=token.map[1] - 1,
            )
            if language in ("", name):
                yield fence
        before = token.content.strip() if token.type == "html_block" else ""


def blocks(language: str) -> list[tuple[str, str]]:
    """Return all blocks of a language: document, content."""
    return [(name, fence.content) for name in DOCUMENTS for fence in fences(name, language)]
