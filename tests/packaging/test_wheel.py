"""The package installs with and without the C++ operator library."""

from __future__ import annotations

import json
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
REGISTRATION = "optimum/commands/register/fixed_capacity.py"
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


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory) -> Path:
    """The directory of a wheel that was built without a compiler."""
    directory = tmp_path_factory.mktemp("pure")
    result = build_wheel(directory, CXX="/nonexistent/c++", FIXED_CAPACITY_REQUIRE_NATIVE="0")
    assert result.returncode == 0, result.stdout + result.stderr
    return directory


def test_without_a_compiler_the_wheel_is_pure_python(pure_wheel):
    files = files_of(pure_wheel)
    assert LIBRARY not in files
    assert "runtime_shims/native.py" in files
    assert next(pure_wheel.glob("*.whl")).name.endswith("-py3-none-any.whl")


def optimum_cli(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`optimum-cli` where nothing of ours is installed but what lies in `site`."""
    ours = (str(REPOSITORY), str(REPOSITORY / "tests"))
    others = [path for path in sys.path if path and path != ours[0] and not path.startswith(ours[1])]
    code = (
        f"import sys, site; sys.path[:] = {[str(site), *others]!r}; site.addsitedir({str(site)!r});"
        "from optimum.commands.optimum_cli import main; main()"
    )
    command = [sys.executable, "-S", "-c", code, "export", "fixed-capacity", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=site)


def test_optimum_finds_the_command_of_an_installed_wheel(pure_wheel, tmp_path):
    (wheel,) = pure_wheel.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    model = str(REPOSITORY / "tests" / "data" / "small_t5")
    planned = optimum_cli(tmp_path, "-m", model, "--plan-only", "--json", "--attention", "portable")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["kind"] == "text_seq2seq"
    (tmp_path / REGISTRATION).unlink()
    assert "--max-dec" not in optimum_cli(tmp_path, "--help").stdout


def test_optimum_finds_the_command_of_an_editable_installation(tmp_path):
    hook = (
        "import sys, backend;"
        "backend.build_editable(sys.argv[1], {'wheel.cmake': 'false', 'build-dir': sys.argv[1] + '/build'})"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "build_support")}
    command = [sys.executable, "-c", hook, str(tmp_path / "wheel")]
    (tmp_path / "wheel").mkdir()
    built = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    helped = optimum_cli(tmp_path / "site", "--help")
    assert "--max-dec N" in helped.stdout, helped.stderr


def test_without_the_sdk_the_wheel_has_no_library(tmp_path):
    result = build_wheel(tmp_path, SKBUILD_CMAKE_DEFINE="CMAKE_DISABLE_FIND_PACKAGE_executorch=ON")
    assert result.returncode == 0, result.stdout + result.stderr
    assert LIBRARY not in files_of(tmp_path)


def test_a_required_library_that_cannot_be_built_fails_the_build(tmp_path):
    result = build_wheel(tmp_path, CXX="/nonexistent/c++", FIXED_CAPACITY_REQUIRE_NATIVE="1")
    assert result.returncode != 0


def test_no_source_of_the_library_is_shipped_in_the_wheel(pure_wheel):
    assert not [name for name in files_of(pure_wheel) if name.endswith((".cpp", ".h", "CMakeLists.txt"))]


@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="no C++ compiler")
def test_with_a_compiler_this_installation_has_the_library():
    assert native.operator_library_path() is not None
