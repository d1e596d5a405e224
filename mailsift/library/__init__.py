"""`import mailsift` in a program of one's own: the service's validator, without the service."""

from __future__ import annotations
