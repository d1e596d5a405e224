"""Turn it on: settings, wiring, command line, embedded servers, worker."""

from __future__ import annotations
