"""One worker process: claim work, do it, commit what came of it, keep its leases."""
