"""What a rule of a plug-in may look at. Everything else of a `Context` may change."""

from typing import Protocol

from wheelfix.loader.load_values import Load
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel


class WheelLoads(Protocol):
    """The installed wheel, as the dynamic loader sees it."""

    def load(self, root: str, /) -> Load:
        """Return what opening the member `root` loads in a new process.

        Only the wheel's own files are there: a library of the platform or of another wheel is not
        found. Raises `BudgetError` if the wheel takes too much work.
        """
        ...


class WheelView(Protocol):
    """A wheel, the settings for it, and what its objects load."""

    @property
    def wheel(self) -> Wheel:
        """The wheel as a value."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings for this wheel."""
        ...

    @property
    def world(self) -> WheelLoads:
        """The wheel in its most common layout once installed."""
        ...
