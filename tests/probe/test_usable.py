from __future__ import annotations

import pytest

from autotune.probe.usable import usable_memory

MIB = 2**20


# TensorFlow's line "Created device ... GPU:0 with N MB memory" (it means MiB) on otherwise idle boards, in public
# logs and notebooks; total and reserved as the driver of such boards gives them.
@pytest.mark.parametrize(
    ("board", "total", "reserved", "major", "sms", "logged"),
    [
        ("A100-SXM4-40GB", 40960, 518, 8, 108, 38482),
        ("A100-SXM4-40GB", 40960, 518, 8, 108, 38341),
        ("A100-SXM4-40GB MIG 3g.20gb", 20096, 0, 8, 42, 18211),
        ("H100 80GB HBM3", 81559, 480, 9, 132, 78763),
        ("T4", 15360, 448, 7, 40, 13757),
        ("T4", 15360, 448, 7, 40, 13942),
    ],
)
def test_close_to_what_tensorflow_logged_on_real_boards(board, total, reserved, major, sms, logged):
    usable = usable_memory((total - reserved) * MIB, cc_major=major, multiprocessors=sms, environment={}).usable_bytes
    assert usable / MIB == pytest.approx(logged, rel=0.02), board


@pytest.mark.parametrize(("major", "reserve"), [(3, 500), (6, 500), (7, 1050), (8, 1536), (9, 1800), (12, 1800)])
def test_tensorflows_reserve_by_generation(major, reserve):
    parts = usable_memory(20000 * MIB, cc_major=major, multiprocessors=10, environment={})
    assert parts.tensorflow_reserve_bytes == reserve * MIB
    assert parts.usable_bytes == (20000 - reserve - 42) * MIB


def test_unknown_gpu_takes_the_largest_of_each():
    parts = usable_memory(20000 * MIB, cc_major=None, multiprocessors=None, environment={})
    assert parts.usable_bytes == (20000 - 1800 - 612) * MIB
    assert "unknown" in parts.cuda_context_source
    assert "unknown" in parts.tensorflow_reserve_source


def test_little_free_memory_has_a_smaller_reserve():
    parts = usable_memory(1000 * MIB, cc_major=8, multiprocessors=10, environment={})
    assert parts.tensorflow_reserve_bytes == 225 * MIB


@pytest.mark.parametrize("free", [0, 1, 30 * MIB, 200 * MIB])
def test_a_full_gpu_is_zero_and_never_below(free):
    parts = usable_memory(free, cc_major=8, multiprocessors=108, environment={})
    assert 0 <= parts.usable_bytes <= free
    assert parts.cuda_context_bytes <= free


@pytest.mark.parametrize(("value", "reserve"), [("0", 0), ("4000", 4000), ("999999", 1536), ("x", 1536), ("-1", 1536)])
def test_tensorflows_own_variable(value, reserve):
    variables = {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB": value}
    parts = usable_memory(20000 * MIB, cc_major=8, multiprocessors=10, environment=variables)
    assert parts.tensorflow_reserve_bytes == reserve * MIB
