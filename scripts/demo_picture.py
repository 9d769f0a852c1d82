"""The README's picture: the output of scripts/demo as an SVG, for light and dark pages.

scripts/demo | python scripts/demo_picture.py >docs/demo.svg
"""

import re
import sys
from html import escape

FONT = 13
ADVANCE = 7.85
"""Width of a character: most monospace fonts have 0.6 em."""
LINE = 19
MARGIN = 18
STYLE = """
    .page { fill: #f6f8fa; stroke: #d1d9e0 }
    text { fill: #1f2328; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
    .step { font-weight: 600 }
    .works { fill: #116329; font-weight: 600 }
    .fails { fill: #b3151f; font-weight: 600 }
    @media (prefers-color-scheme: dark) {
      .page { fill: #151b23; stroke: #3d444d }
      text { fill: #f0f6fc }
      .works { fill: #56d364 }
      .fails { fill: #ff8f88 }
    }
"""


def picture(output: str) -> str:
    """Draw what scripts/demo prints."""
    lines = ["$ scripts/demo", *output.rstrip("\n").splitlines()]
    width = round(2 * MARGIN + ADVANCE * max(len(line) for line in lines))
    height = 2 * MARGIN + LINE * len(lines)
    texts = "\n".join(
        f'  <text x="{MARGIN}" y="{MARGIN + FONT + LINE * number}" xml:space="preserve"'
        f"{_emphasis(line)}>{_colored(line)}</text>"
        for number, line in enumerate(lines)
        if line
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" role="img" aria-label="The output of scripts/demo">
  <style>{STYLE}  </style>
  <rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>
{texts}
</svg>
"""


def _emphasis(line: str) -> str:
    return ' class="step"' if re.match(r"\$ |\d\. ", line) else ""


def _colored(line: str) -> str:
    text = escape(line, quote=False)
    text = re.sub(r"\bFAILS\b", '<tspan class="fails">FAILS</tspan>', text)
    return re.sub(r"\bworks\b", '<tspan class="works">works</tspan>', text)


if __name__ == "__main__":
    sys.stdout.write(picture(sys.stdin.read()))
