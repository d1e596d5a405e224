"""A customer's file becomes two Parquet files: its rows as they were, and the distinct addresses in them."""

from __future__ import annotations

from jobs.intake.plan import ChunkSlice, Intake, IntakeLimits, IntakeOptions
from jobs.intake.run import take_in

__all__ = ["ChunkSlice", "Intake", "IntakeLimits", "IntakeOptions", "take_in"]
