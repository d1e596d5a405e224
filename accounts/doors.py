"""Doors: the APIs of other services that their clients may go on to use here (mailsift.api.doors)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Door(StrEnum):
    """Whose clients come in; each door has keys of its own, for most send them in places that get around."""

    EMAILABLE = "emailable"
    KICKBOX = "kickbox"
    NEVERBOUNCE = "neverbounce"
    REACHER = "reacher"
    ZEROBOUNCE = "zerobounce"


NAMES: Final[Mapping[Door, str]] = {
    Door.EMAILABLE: "Emailable",
    Door.KICKBOX: "Kickbox",
    Door.NEVERBOUNCE: "NeverBounce",
    Door.REACHER: "Reacher",
    Door.ZEROBOUNCE: "ZeroBounce",
}
"""As they write themselves."""
