"""The package installs with and without the C++ operator library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runtime_shims import native

pytest.importorskip("pip")
pytest.importorskip("scikit_build_core")

REPOSITORY = Path(__file__).parents[2]
LIBRARY = "runtime_shims/_native/libfixed_capacity_ops.so"


def build_wheel(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(directory),
        str(REPOSITORY),
    ]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def files_of(directory: Path) -> list[str]:
    (wheel,) = directory.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_without_a_compiler_the_wheel_is_pure_python(tmp_path):
    result = build_wheel(tmp_path, CXX="/nonexistent/c++", FIXED_CAPACITY_REQUIRE_NATIVE="0")
    assert result.returncode == 0, result.stdout + result.stderr
    files = files_of(tmp_path)
    assert LIBRARY not in files
    assert "runtime_shims/native.py" in files
    assert next(tmp_path.glob("*.whl")).name.endswith("-py3-none-any.whl")


def test_without_the_sdk_the_wheel_has_no_library(tmp_path):
    result = build_wheel(tmp_path, SKBUILD_CMAKE_DEFINE="CMAKE_DISABLE_FIND_PACKAGE_executorch=ON")
    assert result.returncode == 0, result.stdout + result.stderr
    assert LIBRARY not in files_of(tmp_path)


def test_a_required_library_that_cannot_be_built_fails_the_build(tmp_path):
    result = build_wheel(tmp_path, CXX="/nonexistent/c++", FIXED_CAPACITY_REQUIRE_NATIVE="1")
    assert result.returncode != 0


def test_no_source_of_the_library_is_shipped_in_the_wheel(tmp_path):
    build_wheel(tmp_path, CXX="/nonexistent/c++", FIXED_CAPACITY_REQUIRE_NATIVE="0")
    assert not [name for name in files_of(tmp_path) if name.endswith((".cpp", ".h", "CMakeLists.txt"))]


@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="no C++ compiler")
def test_with_a_compiler_this_installation_has_the_library():
    assert native.operator_library_path() is not None
