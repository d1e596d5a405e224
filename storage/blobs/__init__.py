"""Every blob: the files of jobs and drafts, on a local disk or in an object store."""

from __future__ import annotations
