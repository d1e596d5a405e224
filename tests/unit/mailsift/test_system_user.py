"""The user that PostgreSQL runs as when we are root: processes that start together make it once."""

from __future__ import annotations

import fcntl
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from mailsift.pipeline.errors import MailsiftError
from mailsift.runtime import embedded


class Users:
    """The system's users, of whom none is ours; to add one works, or it does not."""

    def __init__(self, folder: Path, *, may_add: bool = True) -> None:
        self.folder = folder
        self.may_add = may_add
        self.known: set[str] = set()
        self.added: list[str] = []

    def get(self, name: str) -> pwd.struct_passwd:
        self._check_locked()
        if name not in self.known:
            raise KeyError(name)
        return pwd.struct_passwd((name, "x", 999, 999, "", "/", "/bin/false"))

    def add(self, command: tuple[str, ...], **_: object) -> None:
        self._check_locked()
        if not self.may_add:
            raise subprocess.CalledProcessError(1, command)
        self.added.append(command[-1])
        self.known.add(command[-1])

    def _check_locked(self) -> None:
        """Nobody else could take the lock now: not even to look, for what is not there is added."""
        other = os.open(self.folder, os.O_RDONLY)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(other)


def users(monkeypatch: pytest.MonkeyPatch, folder: Path, *, may_add: bool = True) -> Users:
    made = Users(folder, may_add=may_add)
    monkeypatch.setattr(embedded, "USERS_FOLDER", folder)
    monkeypatch.setattr(pwd, "getpwnam", made.get)
    monkeypatch.setattr(subprocess, "run", made.add)
    return made


def test_it_is_added_once_and_while_nobody_else_adds_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = users(monkeypatch, tmp_path)
    assert [embedded.system_user().pw_uid for _ in range(2)] == [999, 999]
    assert made.added == [embedded.SYSTEM_USER]


def test_where_it_cannot_be_added_the_way_out_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    users(monkeypatch, tmp_path, may_add=False)
    with pytest.raises(MailsiftError, match="MAILSIFT_DATABASE_URL"):
        embedded.system_user()
