"""A customer's file becomes two Parquet files: its rows as they were, and the distinct addresses in them.

Nothing is imported here: the process that reads a file passes through, and its start is most of a small job.
"""
