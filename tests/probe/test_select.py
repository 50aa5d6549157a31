from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.errors import AutotuneError, UsageError
from autotune.probe import gpu_of, hardware, probe, select_device, twins
from autotune.probe.recorded import load_recording

MIG = [s.uuid for s in load_recording("a100-mig-host").gpu[0].slices]


def test_cpu_is_always_there():
    for name in ("no-driver", "a100-40gb"):
        report = probe(replay=name)
        device = select_device("cpu", report)
        assert (device.kind, device.uuid, device.alignment) == ("cpu", None, 1)
        assert device.memory_usable_bytes == report.host.memory_available_bytes
        assert gpu_of(device, report) is None


@pytest.mark.parametrize("text", ["auto", "gpu", "gpu:0", "GPU:0", " gpu ", "GPU-1a2b5e22"])
def test_the_only_gpu(text):
    report = probe(replay="a100-40gb")
    device = select_device(text, report)
    assert (device.kind, device.cuda_index, device.name, device.alignment) == ("gpu", 0, "NVIDIA A100-SXM4-40GB", 8)
    assert device.memory_usable_bytes == report.gpus[0].memory_usable_bytes
    assert gpu_of(device, report) == report.gpus[0]


def test_cudas_order_counts():
    report = probe(replay="mixed-gpus")
    assert select_device("gpu:0", report).name == "NVIDIA GeForce RTX 4090"
    slow = select_device("gpu:1", report)
    assert (slow.name, slow.alignment) == ("NVIDIA GeForce GTX 1660 Ti", 1)


def test_a_mig_slice_is_the_device():
    report = probe(replay="a100-mig-host")
    device = select_device("auto", report)
    assert (device.uuid, device.name) == (MIG[0], "NVIDIA A100-SXM4-40GB MIG 3g.20gb")
    assert device.memory_usable_bytes < 20096 * 2**20
    other = select_device(MIG[2], report)
    assert (other.uuid, other.cuda_index) == (MIG[2], None)
    assert gpu_of(other, report) == report.gpus[0]
    assert hardware(report, other).memory_bytes == 4864 * 2**20


def test_no_gpu():
    for name in ("no-driver", "mismatch"):
        report = probe(replay=name)
        assert select_device("auto", report).kind == "cpu"
        for text in ("gpu", "gpu:0", "GPU-1a2b5e22"):
            with pytest.raises(AutotuneError) as caught:
                select_device(text, report)
            assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a100-40gb", "gpu:3", "gpu:0"),
        ("a100-40gb", "cuda", "takes auto"),
        ("a100-40gb", "gpu:-1", "takes auto"),
        ("a100-40gb", "GPU-ffff", "no GPU of this machine"),
        ("server-8-lost", "GPU-1a2c", "begins 6 UUIDs"),
        ("a100-mig-host", "GPU-1a2be6aa", "no GPU of this machine"),
    ],
)
def test_wrong_devices(name, text, says):
    with pytest.raises(UsageError, match=says):
        select_device(text, probe(replay=name))


def test_a_gpu_in_doubt_goes_by_uuid():
    """With a lost GPU before it, its number is not sure; its UUID is."""
    report = probe(replay="server-8-lost")
    device = select_device("GPU-1a2cd598", report)
    assert (device.cuda_index, device.kind) == (None, "gpu")
    with pytest.raises(UsageError, match="gpu:0, gpu:1, gpu:2"):
        select_device("gpu:4", report)


def test_hidden_gpus(tmp_path):
    text = "".join([*load_text("a100-40gb"), '\n[environment]\nCUDA_VISIBLE_DEVICES = ""\n'])
    path = tmp_path / "hidden.toml"
    path.write_text(text)
    report = probe(replay=path)
    assert select_device("auto", report).kind == "cpu"
    with pytest.raises(AutotuneError, match="hidden by CUDA_VISIBLE_DEVICES"):
        select_device("gpu", report)
    with pytest.raises(UsageError, match="unset the variable"):
        select_device("GPU-1a2b5e22", report)


def load_text(name: str) -> list[str]:
    from autotune.profiles_path import profiles_folder

    return (profiles_folder() / f"{name}.toml").read_text().splitlines(keepends=True)


def test_unreadable_memory_is_an_error_with_its_reason(tmp_path):
    text = "".join(load_text("t4")) + "\n[gpu.errors]\nmemory_v2 = 999\nmemory_v1 = 999\n"
    path = tmp_path / "unreadable.toml"
    path.write_text(text)
    with pytest.raises(AutotuneError, match="unknown error"):
        select_device("gpu", probe(replay=path))


def test_hardware():
    report = probe(replay="h100")
    found = hardware(report, select_device("gpu", report))
    assert (found.device, found.kind, found.compute_capability) == ("NVIDIA H100 80GB HBM3", "gpu", "9.0")
    assert (found.memory_bytes, found.driver_version) == (81559 * 2**20, "570.124.06")
    cpu = hardware(report, select_device("cpu", report))
    assert (cpu.kind, cpu.driver_version, cpu.memory_bytes) == ("cpu", None, report.host.memory_total_bytes)


def test_twins_are_the_other_visible_gpus_of_the_same_make():
    report = probe(replay="mixed-gpus")
    assert twins(select_device("auto", report), report) == ()
    (gpu,) = probe(replay="a100-40gb").gpus
    second = replace(gpu, index=1, cuda_index=1, uuid="GPU-second")
    busy = replace(second, index=2, cuda_index=2, uuid="GPU-busy", memory_usable_bytes=gpu.memory_usable_bytes // 2)
    hidden = replace(second, index=3, cuda_index=None, uuid="GPU-hidden")
    pair = replace(probe(replay="a100-40gb"), gpus=(gpu, second, busy, hidden))
    assert [d.uuid for d in twins(select_device("auto", pair), pair)] == ["GPU-second"]
    assert [d.uuid for d in twins(select_device("gpu:1", pair), pair)] == [gpu.uuid]
    assert twins(select_device("cpu", pair), pair) == ()
