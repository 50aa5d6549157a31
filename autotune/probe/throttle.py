"""What NVML's clock event bits mean (``nvmlClocksEventReasons`` in nvml.h)."""

from __future__ import annotations

_NAMES = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "thermal_software",
    0x40: "thermal_hardware",
    0x80: "power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}

# Conditions under which a measured time is not what the board can do. A power cap is ordinary work on a large board.
ABNORMAL = frozenset({"hardware_slowdown", "thermal_software", "thermal_hardware", "power_brake", "reliability"})


def throttle_names(bits: int) -> tuple[str, ...]:
    """``0x24 -> ('power_cap', 'thermal_software')``; a bit of a newer driver is named by its value."""
    named = [_NAMES.get(bit, f"bit_{bit:#x}") for bit in (1 << place for place in range(64)) if bits & bit]
    return tuple(named)
