"""What optimum looks for: installed as `optimum/commands/register/fixed_capacity.py`, see pyproject.toml."""

from __future__ import annotations

from optimum.commands.export.base import ExportCommand

from exporter.optimum_command.command import FixedCapacityExportCommand

REGISTER_COMMANDS = [(FixedCapacityExportCommand, ExportCommand)]
