"""Tell somebody: the events a job causes and their payloads."""

from __future__ import annotations
