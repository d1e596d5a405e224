"""`frame.mailsift.check("email")` in polars, without loading polars for those who do not use it.

The namespace is registered when polars is there already, or else at the end of its import.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    import polars as pl

NAMESPACE = "mailsift"
_LIBRARY = "polars"


class FrameNamespace:
    """What polars gives as `frame.mailsift` and `series.mailsift`."""

    def __init__(self, given: pl.DataFrame | pl.Series) -> None:
        self._given = given

    def check(self, column: str = "", **options: Any) -> pl.DataFrame:
        """Return `address` and the 13 fields; of a frame, behind its columns.

        Args:
            column: of a frame: which has the addresses; "" to find it.
            options: those of `mailsift.check_many`.
        """
        from mailsift.library import check_many  # noqa: PLC0415 - see above

        checked: pl.DataFrame = check_many(self._given, column=column, **options)
        return checked


class _Watcher(MetaPathFinder):
    """Waits for the import of polars, and is gone then."""

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _LIBRARY:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _register_after(spec.loader)
        return spec


def _register_after(loader: Loader) -> None:
    """Let a loader register when it has loaded, once; it stays what it is for everybody who looks at it."""
    load = loader.exec_module

    def load_and_register(module: ModuleType) -> None:
        delattr(loader, "exec_module")
        load(module)
        _register(module)

    setattr(loader, "exec_module", load_and_register)  # noqa: B010 - a method of this one instance


def _register(polars: Any) -> None:
    polars.api.register_dataframe_namespace(NAMESPACE)(FrameNamespace)
    polars.api.register_series_namespace(NAMESPACE)(FrameNamespace)


def register_namespace() -> None:
    """Register the namespace, now or when polars is imported."""
    if _LIBRARY in sys.modules:
        _register(sys.modules[_LIBRARY])
    else:
        sys.meta_path.insert(0, _Watcher())
