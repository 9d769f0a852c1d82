"""The one option that stands before the command as well: no other is imported for it."""

from typing import Annotated

import typer

Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        metavar="",
        help="Say more; also before the command.",
        show_default=False,
    ),
]
