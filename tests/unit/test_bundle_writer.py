"""A bundle appears whole or not at all: staging, replacing, interrupts and full disks."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from processes import listing, run, small_disk

from exporter.bundle import writer
from exporter.bundle.writer import (
    OutputError,
    WriteError,
    check_output,
    file_entries,
    save_text_files,
    staging,
)
from runtime_shims.contract.errors import FixedCapacityError

INTERRUPTS = (KeyboardInterrupt, SystemExit, RuntimeError, MemoryError)


def old_bundle(place: Path) -> Path:
    """Something that counts as a bundle: it has a manifest of ours, even a damaged one."""
    place.mkdir()
    (place / "manifest.json").write_text('{"format_version": old')
    return place


def test_a_finished_bundle_stands_alone_at_its_place(tmp_path: Path) -> None:
    with staging(tmp_path / "new.bundle") as aside:
        assert not (tmp_path / "new.bundle").exists()
        (aside / "manifest.json").write_text("new")
    assert listing(tmp_path) == {"new.bundle": None, "new.bundle/manifest.json": b"new"}
    assert (tmp_path / "new.bundle").stat().st_mode & 0o777 == 0o755


def test_the_staging_directory_is_hidden_beside_the_output_and_named_after_it(tmp_path: Path) -> None:
    with staging(tmp_path / "new.bundle") as aside:
        assert aside.parent == tmp_path
        assert aside.name.startswith(".new.bundle.partial-")


@pytest.mark.parametrize("failure", INTERRUPTS)
def test_any_failure_removes_everything_that_was_written(tmp_path: Path, failure: type[BaseException]) -> None:
    def write() -> None:
        with staging(tmp_path / "new.bundle") as aside:
            (aside / "tokenizer").mkdir()
            (aside / "tokenizer" / "vocab.json").write_text("{}")
            raise failure("stop")

    with pytest.raises(failure):
        write()
    assert listing(tmp_path) == {}


@pytest.mark.parametrize("failure", [*INTERRUPTS, OSError])
def test_the_old_bundle_survives_a_new_one_that_fails(tmp_path: Path, failure: type[BaseException]) -> None:
    output = old_bundle(tmp_path / "my.bundle")
    before = listing(tmp_path)

    def write() -> None:
        with staging(output) as aside:
            (aside / "manifest.json").write_text("new")
            raise failure("stop")

    with pytest.raises((failure, WriteError)):
        write()
    assert listing(tmp_path) == before


@pytest.mark.parametrize("failing_rename", [1, 2])
@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
def test_the_old_bundle_comes_back_when_the_exchange_itself_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_rename: int, failure: BaseException
) -> None:
    output = old_bundle(tmp_path / "my.bundle")
    before = listing(tmp_path)
    rename, calls = os.rename, []

    def failing(source: str, target: str) -> None:
        calls.append(source)
        if len(calls) == failing_rename:
            raise failure
        rename(source, target)

    monkeypatch.setattr(writer.os, "rename", failing)
    with pytest.raises((KeyboardInterrupt, WriteError)), staging(output) as aside:
        (aside / "manifest.json").write_text("new")
    assert listing(tmp_path) == before


def test_a_new_bundle_replaces_the_old_one_whole(tmp_path: Path) -> None:
    output = old_bundle(tmp_path / "my.bundle")
    (output / "left-over.pte").write_text("old")
    check_output(output, force=True)
    with staging(output) as aside:
        (aside / "manifest.json").write_text("new")
    assert listing(tmp_path) == {"my.bundle": None, "my.bundle/manifest.json": b"new"}


def test_an_existing_output_is_refused_without_force(tmp_path: Path) -> None:
    output = old_bundle(tmp_path / "my.bundle")
    with pytest.raises(OutputError, match="already exists; give --force to replace it, or another output"):
        check_output(output, force=False)


def test_a_link_to_nowhere_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "my.bundle").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="already exists"):
        check_output(tmp_path / "my.bundle", force=False)
    with pytest.raises(OutputError, match="is no bundle"):
        check_output(tmp_path / "my.bundle", force=True)


def test_force_does_not_replace_a_link_to_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "link.bundle").symlink_to(old_bundle(tmp_path / "my.bundle"))
    with pytest.raises(OutputError, match="is a link; give the directory that it leads to"):
        check_output(tmp_path / "link.bundle", force=True)


@pytest.mark.parametrize("inside", ["new.bundle", "tokenizer/new.bundle", "link/new.bundle", "../my.bundle/new.bundle"])
@pytest.mark.parametrize("force", [False, True])
def test_an_output_inside_a_bundle_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str, force: bool
) -> None:
    bundle = old_bundle(tmp_path / "my.bundle")
    (bundle / "tokenizer").mkdir()
    (bundle / "link").symlink_to(bundle / "tokenizer")
    before = listing(tmp_path)
    for output in (bundle / inside, Path(inside)):
        monkeypatch.chdir(bundle)
        with pytest.raises(OutputError) as refusal:
            check_output(output, force=force)
        assert str(refusal.value) == f"{output}: lies in the bundle {bundle}; give an --output outside of it"
    assert listing(tmp_path) == before


def test_a_directory_with_another_tool_s_manifest_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"manifest_version": 3, "name": "an extension"}')
    check_output(tmp_path / "new.bundle", force=False)
    with pytest.raises(OutputError, match="is no bundle, so --force does not replace it"):
        check_output(tmp_path, force=True)


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_force_replaces_nothing_but_a_bundle(tmp_path: Path, kind: str) -> None:
    output = tmp_path / "precious"
    if kind == "file":
        output.write_text("my thesis")
    else:
        output.mkdir()
        (output / "thesis.txt").write_text("my thesis")
    before = listing(tmp_path)
    with pytest.raises(OutputError, match="is no bundle, so --force does not replace it"):
        check_output(output, force=True)
    assert listing(tmp_path) == before


def test_a_parent_that_does_not_exist_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist; create it first"):
        check_output(tmp_path / "no" / "where.bundle", force=False)
    assert listing(tmp_path) == {}


def test_refusals_are_the_users_and_failures_are_not() -> None:
    """The command line gives 2 for the first and 1 for the second."""
    assert issubclass(OutputError, ValueError)
    assert issubclass(WriteError, FixedCapacityError)
    assert not issubclass(WriteError, ValueError)


def test_only_a_lack_of_space_advises_to_free_some(tmp_path: Path) -> None:
    for code, advised in ((errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)):
        with pytest.raises(WriteError) as failure, staging(tmp_path / "new.bundle"):
            raise OSError(code, os.strerror(code))
        assert ("free space" in str(failure.value)) is advised
        assert os.strerror(code) in str(failure.value)


WRITE_TOO_MUCH = textwrap.dedent(
    """
    import os, resource, sys
    from pathlib import Path
    from exporter.bundle.writer import staging

    if len(sys.argv) > 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    place = Path(sys.argv[1])
    try:
        with staging(place / "my.bundle") as aside:
            (aside / "manifest.json").write_text("small enough")
            (aside / "model.pte").write_bytes(bytes(1 << 20))
    except Exception as error:
        print(type(error).__name__, error)
    print(sorted(os.listdir(place)))
    """
)


def printed_by(code: str, *arguments: object, wrapper: tuple[str, ...] = ()) -> list[str]:
    """Lines that `code` prints in a process of its own, under the command `wrapper`."""
    done = run(*wrapper, sys.executable, "-c", code, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_file_size_limit_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    message, left = printed_by(WRITE_TOO_MUCH, tmp_path, 1 << 16)
    assert message == (
        f"WriteError {tmp_path}/my.bundle: writing failed: File too large; nothing was kept; "
        "free space and run it again"
    )
    assert left == "[]"


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    message, left = printed_by(WRITE_TOO_MUCH, tmp_path, wrapper=small_disk(tmp_path, 128))
    assert message == (
        f"WriteError {tmp_path}/my.bundle: writing failed: No space left on device; nothing was kept; "
        "free space and run it again"
    )
    assert left == "[]"


def test_a_full_disk_keeps_the_old_bundle(tmp_path: Path) -> None:
    code = WRITE_TOO_MUCH.replace(
        "try:", "(place / 'my.bundle').mkdir(); (place / 'my.bundle/manifest.json').write_text('old')\ntry:"
    )
    code += "print((place / 'my.bundle/manifest.json').read_text())"
    message, left, kept = printed_by(code, tmp_path, wrapper=small_disk(tmp_path, 128))
    assert "No space left on device" in message
    assert (left, kept) == ("['my.bundle']", "old")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_writing_leaves_nothing(tmp_path: Path, sent: signal.Signals) -> None:
    code = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        import typer
        from exporter.bundle.writer import staging
        from runtime_shims.console import run_app

        app = typer.Typer()

        @app.command()
        def write(place: Path) -> None:
            with staging(place / "my.bundle") as aside:
                (aside / "manifest.json").write_text("nearly")
                print("writing", flush=True)
                time.sleep(60)

        sys.exit(run_app(app, "writer"))
        """
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(sent)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "writer: interrupted\n")
    assert listing(tmp_path) == {}


def test_every_file_is_listed_with_its_role_size_and_hash(tmp_path: Path) -> None:
    contents = {
        "golden.json": ("golden", b"{}"),
        "model.portable.pte": ("program", b"program"),
        "tokenizer/preprocessor_config.json": ("preprocessor", b"{ }"),
        "tokenizer/tokenizer.json": ("tokenizer", b""),
    }
    for name, (_, data) in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "manifest.json").write_text("not listed")
    entries = file_entries(tmp_path)
    assert [entry.path for entry in entries] == list(contents)
    for entry in entries:
        role, data = contents[entry.path]
        digest = hashlib.sha256(data).hexdigest()
        assert (entry.role, entry.size_bytes, entry.sha256) == (role, len(data), digest)


def test_a_source_without_tokenizer_writes_none(tmp_path: Path) -> None:
    save_text_files(tmp_path, None, None)
    assert listing(tmp_path) == {}


def test_a_tokenizer_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    class RustTokenizer:
        def save_pretrained(self, directory: Path) -> None:
            raise Exception("File too large (os error 27)\n")

    with pytest.raises(WriteError) as failure:
        save_text_files(tmp_path, RustTokenizer(), None)
    assert str(failure.value) == "tokenizer: writing failed: File too large (os error 27)"
