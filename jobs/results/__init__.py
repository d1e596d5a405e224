"""The results of a job: segments while it runs, pages, breakdown, export, what a later run is made of."""

from __future__ import annotations
