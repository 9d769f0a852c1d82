"""The folder of the project's scripts."""

from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"
