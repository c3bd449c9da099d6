"""Classes of devices, and what one model may take of their memory."""

from __future__ import annotations

from exporter.spec.deployment import Device, DeviceName

DEVICES: dict[DeviceName, Device] = {
    "phone": Device("phone", "a phone with 8 GB, of which the system leaves one app about 3", 3_000_000_000),
    "board": Device("board", "a Raspberry Pi class board with 4 GB, half of it for the model", 2_000_000_000),
    "laptop": Device("laptop", "a laptop with 16 GB, half of it for the model", 8_000_000_000),
}
