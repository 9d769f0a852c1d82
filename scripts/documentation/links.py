"""The internal links of a built site, and those that lead nowhere.

zensical and mkdocs check links from Markdown to Markdown; this reads what they wrote, with links
to folders, images and files, and those of the navigation. `python -m documentation.links FOLDER`
prints the dead ones, and fails if there are any.
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NOT_FOUND = "404.html"
"""Is shown at any address, so that its links are absolute."""


class _Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        if tag in {"a", "img", "script", "link"}:
            self.links += [given[name] for name in ("href", "src") if name in given]
        self.anchors |= {given[name] for name in ("id", "name") if name in given}


def dead_links(site: Path) -> Iterator[str]:
    """Yield `page: link` for each internal link of the pages in `site` that leads nowhere."""
    site = site.resolve()
    pages: dict[Path, _Page] = {}
    for file in sorted(site.rglob("*.html")):
        page = pages[file] = _Page()
        page.feed(file.read_text(encoding="utf-8"))
    for file, page in pages.items():
        for link in dict.fromkeys(page.links):
            if file.name != _NOT_FOUND and not _leads_somewhere(link, file, pages):
                yield f"{file.relative_to(site)}: {link}"


def _leads_somewhere(link: str, source: Path, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (source.parent / unquote(parts.path)).resolve() if parts.path else source
    if target.is_dir():
        target /= "index.html"
    if parts.path.startswith("/") or not target.is_file():
        return False
    return not parts.fragment or target not in pages or parts.fragment in pages[target].anchors


def main() -> None:
    """Print the dead links of the folder that is named."""
    dead = list(dead_links(Path(sys.argv[1])))
    for line in dead:
        print(f"dead link: {line}", file=sys.stderr)
    sys.exit(bool(dead))


if __name__ == "__main__":
    main()
