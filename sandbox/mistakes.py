"""The ways people get an address wrong beyond doubt, and the ways they write a good one oddly."""

from __future__ import annotations

from collections.abc import Callable

MISTAKES: tuple[Callable[[str, str], str], ...] = (
    lambda local, domain: f"{local}{domain}",
    lambda local, _domain: f"{local}@",
    lambda _local, domain: f"@{domain}",
    lambda local, domain: f"{local}@@{domain}",
    lambda local, domain: f"{local}@{domain}@{domain}",
    lambda local, domain: f".{local}@{domain}",
    lambda local, domain: f"{local}.@{domain}",
    lambda local, domain: f"{local[:1]}..{local[1:]}@{domain}",
    lambda local, domain: f"{local} x@{domain}",
    lambda local, domain: f"{local}@{domain.partition('.')[0]}",
    lambda local, domain: f"{local}@{domain.replace('.', '..', 1)}",
    lambda local, domain: f"{local}@.{domain}",
    lambda local, domain: f"{local}@-{domain}",
    lambda local, domain: f"{local}@www_{domain}",
    lambda local, domain: f"{local}@{domain.replace('.', ',', 1)}",
    lambda local, domain: f"{local},x@{domain}",
    lambda local, domain: f"{local};x@{domain}",
    lambda local, domain: f"{local}(at){domain}",
    lambda local, _domain: f"{local}@[192.0.2.25]",
    lambda local, _domain: f"{local}@192.0.2.25",
    lambda local, domain: f"{local}@{'x' * 64}.{domain}",
    lambda local, domain: f"{local}@{domain}; {local}2@{domain}",
    lambda _local, domain: f"https://{domain}/",
    lambda _local, _domain: "n/a",
    lambda _local, _domain: "unknown",
    lambda _local, _domain: "+49 30 1234567",
)
"""From local part and domain to text that is no address by RFC 5321 and email-validator alike."""

DECORATIONS: tuple[Callable[[str], str], ...] = (
    str.upper,
    str.upper,
    str.title,
    lambda cell: f" {cell}",
    lambda cell: f"{cell} ",
    lambda cell: f"  {cell.upper()}\t",
    lambda cell: f"\u00a0{cell}",
    lambda cell: f"<{cell}>",
    lambda cell: f"mailto:{cell}",
    str,
)
"""From a good address to the same address in other clothes."""
