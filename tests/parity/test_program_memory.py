"""What the arenas of a program file hold: the caches that were planned, once, and activations beside them."""

from __future__ import annotations

from pathlib import Path

from runtime_shims.reference.program_file import read_method_memory
from tests.parity.programs import EXECUTORCH_PROGRAMS, PROGRAMS, Lowered, ProgramStore, on

CACHE_ARENA = 2  # the arena of mutable buffers shared by all methods of a program


def arenas(path: Path) -> list[list[int]]:
    """Bytes of each arena, per method, as the file itself states them."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    read = deserialize_pte_binary(path.read_bytes())
    program = getattr(read, "program", read)
    return [list(plan.non_const_buffer_sizes) for plan in program.execution_plan]


@on(*EXECUTORCH_PROGRAMS)
def test_the_arena_of_mutable_buffers_is_exactly_the_planned_caches(lowered: Lowered, programs: ProgramStore) -> None:
    planned = programs.planned(lowered.program_case).plan
    for sizes in arenas(lowered.bundle.file(lowered.bundle.program().file)):
        assert sizes[CACHE_ARENA] == planned.cache_bytes


@on(*EXECUTORCH_PROGRAMS)
def test_planned_bytes_are_the_caches_and_the_activations_that_the_manifest_states(lowered: Lowered) -> None:
    manifest = lowered.bundle.manifest
    methods = arenas(lowered.bundle.file(lowered.bundle.program().file))
    assert manifest.memory.planned_bytes == sum(max(sizes) for sizes in zip(*methods, strict=True))
    assert manifest.memory.planned_bytes - manifest.memory.activation_bytes == manifest.memory.cache_bytes
    assert manifest.memory.cache_bytes == sum(entry.size_bytes for entry in manifest.caches)


@on(*PROGRAMS)
def test_the_manifest_says_what_was_asked_for(lowered: Lowered) -> None:
    """A requested capacity is exported as it is or refused, never silently another one."""
    asked, limits = lowered.program_case.capacity, lowered.bundle.manifest.limits
    assert (limits.max_batch, limits.max_dec, limits.max_draft) == (asked.max_batch, asked.max_dec, asked.max_draft)
    assert limits.max_step == max(asked.prefill_chunk, asked.max_draft + 1)
    if limits.max_enc is not None and limits.source_shape is None:
        assert limits.max_enc == asked.max_enc


@on(*EXECUTORCH_PROGRAMS)
def test_the_runtime_reads_the_same_arenas_from_the_file(lowered: Lowered) -> None:
    path = lowered.bundle.file(lowered.bundle.program().file)
    assert [list(method.arenas) for method in read_method_memory(path)] == arenas(path)
