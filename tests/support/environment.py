"""Environment variables for the programs that tests run."""

import os
from collections.abc import Mapping

_OURS = ("AUDITWHEEL_", "WHEELFIX_", "LD_", "SOURCE_DATE_EPOCH")

ENVIRON: Mapping[str, str] = {
    name: value for name, value in os.environ.items() if not name.startswith(_OURS)
}
"""This process's variables without those that change a repair; PATH finds patchelf."""
