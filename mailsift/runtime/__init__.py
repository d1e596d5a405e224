"""What runs: the API, workers and sweepers, and the servers they need when nobody has any."""

from __future__ import annotations
