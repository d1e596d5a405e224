"""Turn it on: settings, the container, command line, embedded servers, worker."""

from __future__ import annotations
