"""Put off the loading of a large library until something of it is used.

Frames (polars) are thirty megabytes and a fifth of a second. A process that takes lists in, makes keys or
shows pages without results needs none of it, though modules it imports name the library.
"""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from typing_extensions import override

UNASKED = (
    "attr",  # rich
    "email_validator",  # FastAPI, for a contact's address
    "opentelemetry.sdk.metrics",  # redis
    "pydantic.v1",  # FastAPI, to refuse its models: a twentieth of the start of an API
    "pygments",  # httpx, for a command line of its own
    "trio",  # httpcore
    "watchfiles",  # uvicorn, to start again
    "yaml",  # kombu
)
"""What these load where it is installed, for values, figures and messages nobody here has."""
_ASKED_OF_ANY = "__"  # what tools ask of every module there is


class _LazyModule(ModuleType):
    """Stands for a library until the first look at anything in it, and for its names ever after."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._lock = threading.RLock()
        self._library: ModuleType | None = None

    @override
    def __getattr__(self, name: str) -> Any:
        """Load the library; called for names that are not here yet."""
        if self._library is None and name.startswith(_ASKED_OF_ANY) and name != "__path__":
            raise AttributeError(name)
        return getattr(self._loaded(), name)

    def _loaded(self) -> ModuleType:
        with self._lock:
            if self._library is None:
                if sys.modules.get(self.__name__) is self:
                    del sys.modules[self.__name__]
                library = importlib.import_module(self.__name__)
                self.__dict__.update({name: x for name, x in vars(library).items() if name[:2] != "__"})
                self._library = library
            return self._library


def import_lazily(name: str) -> None:
    """Let `import name` give a stand-in that loads the library at first use; no-op when it is loaded."""
    sys.modules.setdefault(name, _LazyModule(name))


@contextmanager
def without(*libraries: str) -> Iterator[None]:
    """Load modules as if libraries that they can do without were not installed; those loaded already stay."""
    hidden = [name for name in libraries if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # how to say that there is none
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextmanager
def loading() -> Iterator[None]:
    """Load modules: they stay, and looking through them for rubbish meanwhile takes a third of the time."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
