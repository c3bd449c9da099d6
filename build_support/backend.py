"""The build backend: scikit-build-core, or the same wheel without the C++ operator library when that fails.

A machine without CMake, a C++ compiler or a working SDK still gets an installation; it runs every bundle that
was exported with `--attention portable`. Set FIXED_CAPACITY_REQUIRE_NATIVE=1 to fail instead of falling back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from scikit_build_core import build as scikit_build

Settings = dict[str, "str | list[str]"]

_FAILED_CACHE = Path("build/editable/CMakeCache.txt")

get_requires_for_build_wheel = scikit_build.get_requires_for_build_wheel
get_requires_for_build_editable = scikit_build.get_requires_for_build_editable
get_requires_for_build_sdist = scikit_build.get_requires_for_build_sdist
build_sdist = scikit_build.build_sdist


def _with_fallback(build: Callable[[Settings], str], settings: Settings | None) -> str:
    """Run one hook; when it fails, run it again without CMake. The second failure is the caller's."""
    given = dict(settings or {})
    try:
        return build(given)
    except (Exception, SystemExit) as failure:  # scikit-build-core turns a failed compiler into SystemExit
        if os.environ.get("FIXED_CAPACITY_REQUIRE_NATIVE") == "1":
            raise
        print(
            f"The C++ operator library was not built ({failure}); exports will use --attention portable.",
            file=sys.stderr,
        )
        _FAILED_CACHE.unlink(missing_ok=True)  # a later try must look for compilers afresh
        return build({**given, "wheel.cmake": "false"})


# The hooks below leave out `metadata_directory`: metadata is prepared without CMake, so the platform tag it
# holds is not the tag of a wheel with the library.


def build_wheel(wheel_directory: str, config_settings: Settings | None = None,
                metadata_directory: str | None = None) -> str:
    """PEP 517 hook."""
    del metadata_directory
    return _with_fallback(
        lambda settings: scikit_build.build_wheel(wheel_directory, settings), config_settings
    )


def build_editable(wheel_directory: str, config_settings: Settings | None = None,
                   metadata_directory: str | None = None) -> str:
    """PEP 660 hook."""
    del metadata_directory
    return _with_fallback(
        lambda settings: scikit_build.build_editable(wheel_directory, settings), config_settings
    )


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings | None = None) -> str:
    """PEP 517 hook; metadata needs no compiler."""
    settings: Settings = {**(config_settings or {}), "wheel.cmake": "false"}
    return scikit_build.prepare_metadata_for_build_wheel(metadata_directory, settings)


def prepare_metadata_for_build_editable(metadata_directory: str,
                                        config_settings: Settings | None = None) -> str:
    """PEP 660 hook; metadata needs no compiler."""
    settings: Settings = {**(config_settings or {}), "wheel.cmake": "false"}
    return scikit_build.prepare_metadata_for_build_editable(metadata_directory, settings)
