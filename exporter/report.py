"""What an export says when it is done."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_shims.contract.formatting import format_bytes


@dataclass(frozen=True)
class ExportReport:
    """What an export wrote, in numbers. `str()` is for people."""

    bundle: str
    kind: str
    attention: str
    programs: dict[str, int]
    weights_bytes: int
    cache_bytes: int
    planned_bytes: int
    logits_difference: float | None
    golden_tokens: int
    dropped_settings: tuple[str, ...]
    assumed_settings: tuple[str, ...]
    text_part_only: bool = False
    draft: ExportReport | None = None

    def __str__(self) -> str:
        files = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.programs.items())
        lines = [f"{self.bundle}: {files} (weights {format_bytes(self.weights_bytes)})"]
        lines.append(
            f"run-time memory: {format_bytes(self.planned_bytes)} planned, of it caches "
            f"{format_bytes(self.cache_bytes)}; attention {self.attention}"
        )
        if self.dropped_settings:
            lines.append(f"decodes greedily; the checkpoint also asks for {', '.join(self.dropped_settings)}")
        if self.assumed_settings:
            assumed = ", ".join(self.assumed_settings)
            lines.append(f"assumes {assumed}: the checkpoint leaves it open; set it in its generation_config.json")
        if self.text_part_only:
            lines.append("holds the text model alone; the checkpoint also takes images or sound")
        if self.logits_difference is None:
            lines.append("not verified")
        else:
            lines.append(self._verified(self.logits_difference))
        if self.draft is not None:
            lines.append(f"its draft, {self.draft}")
        return "\n".join(lines)

    def _verified(self, difference: float) -> str:
        if self.golden_tokens:
            return f"verified: golden tokens equal eager PyTorch, logits within {difference:.2g}"
        return f"verified: logits within {difference:.2g} of eager PyTorch, which decide no golden token by more"
