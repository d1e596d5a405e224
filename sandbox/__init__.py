"""A mail internet in a box: authoritative DNS and SMTP servers on loopback with scripted behaviours."""

from __future__ import annotations
