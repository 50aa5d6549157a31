"""The real pynvml, in real processes, against a C library: what drivers did to other tools must not happen here."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from autotune.core.codec import to_plain
from autotune.probe import probe
from autotune.probe.recorded import RecordedMemory, load_recording, recording_names
from autotune.probe.tensor_cores import parse_capability

from .conftest import assert_absent_is_named, clean_environment, probe_json, run_cli

MIB = 2**20


def without_host(report: dict) -> dict:
    """Drops what a real process reads from the real host: shared memory and process names."""
    plain = {k: v for k, v in report.items() if k not in ("host", "warnings")}
    for gpu in plain["gpus"]:
        if gpu["memory_source"] == "host":
            for key in [k for k in gpu if k.startswith("memory_")]:
                del gpu[key]
        for process in gpu["processes"] or []:
            del process["name"]
    return plain


def altered(name: str, /, **changes):
    """A shipped recording with another first GPU."""
    recording = load_recording(name)
    return dataclasses.replace(recording, gpu=[dataclasses.replace(recording.gpu[0], **changes), *recording.gpu[1:]])


def test_there_are_recordings_for_the_machines_people_have():
    wanted = (
        "t4 a100-40gb a100-mig-host a100-mig-container h100 h200 rtx-4090 gtx-1660-ti l4 gb10 orin server-8-lost wsl2"
    )
    assert set(recording_names()) >= {*wanted.split(), "driver-470", "mismatch", "no-driver"}


@pytest.mark.parametrize("name", recording_names())
def test_a_replay_prints_what_the_driver_would(machine, name):
    seen = probe_json(machine(name).environment)
    assert_absent_is_named(seen)
    assert without_host(seen) == without_host(to_plain(probe(replay=name)))


def test_garbage_in_a_name_is_shown_not_fatal(machine):
    """pynvml #53: UnicodeDecodeError on WSL."""
    gpu = probe_json(machine("t4", b"0 name Tesla \xff\xfe T4").environment)["gpus"][0]
    assert gpu["name"] == "Tesla \ufffd\ufffd T4"
    assert gpu["memory_total_bytes"] == 15360 * MIB


@pytest.mark.parametrize("calls", [0, 2, 3, 8, 21, 34])
def test_unknown_error_half_way(machine, calls):
    """nvidia-container-toolkit #48: after a reload of systemd, every call fails."""
    report = probe_json(machine("a100-mig-host", f"sys fail_after {calls} 999".encode()).environment)
    assert_absent_is_named(report)
    reasons = {r for entry in (report, *report["gpus"]) for r in entry["not_available"].values()}
    assert any("unknown error" in reason for reason in reasons)
    if calls < 3:
        assert report["gpus"] == []
        assert any("cannot be listed" in w for w in report["warnings"])


@pytest.mark.parametrize("code", [1, 3, 4, 7, 13, 15, 25, 999, 12345])
def test_any_code_from_any_call(machine, code):
    """Codes NVML knows, and one it does not, from every question at once (gpustat #35: unhashable errors)."""
    queries = [f"0 error.{q} {code}".encode() for q in (*load_recording("t4").gpu[0].values, "memory_v1", "memory_v2")]
    more = [f"0 error.{q} {code}".encode() for q in ("name", "uuid", "pci_bus_id", "compute_processes", "mig_mode")]
    gpu = probe_json(machine("t4", *queries, *more).environment)["gpus"][0]
    assert gpu["name"] is gpu["uuid"] is gpu["power_limit_w"] is gpu["processes"] is None
    assert gpu["advised_policy"] is None


@pytest.mark.parametrize("code", [4, 8, 15, 999])
def test_one_gpu_that_fails_does_not_hide_the_others(machine, code):
    """nvgpu #6: GPU_IS_LOST from GetHandleByIndex killed the whole listing."""
    recording = load_recording("server-8-lost")
    gpus = [dataclasses.replace(g, handle_error=code) if g.handle_error else g for g in recording.gpu]
    report = probe_json(machine(dataclasses.replace(recording, gpu=gpus)).environment)
    assert [g["index"] for g in report["gpus"]] == list(range(8))
    assert [g["memory_total_bytes"] is None for g in report["gpus"]] == [i == 3 for i in range(8)]
    assert [g["cuda_index"] for g in report["gpus"]] == [0, 1, 2, None, None, None, None, None]


def test_cuda_is_asked_where_a_lost_gpu_leaves_doubt(machine):
    recording = load_recording("server-8-lost")
    order = [g.uuid for g in recording.gpu if g.uuid]
    report = probe_json(machine(dataclasses.replace(recording, cuda_order=order)).environment)
    assert [g["cuda_index"] for g in report["gpus"]] == [0, 1, 2, None, 3, 4, 5, 6]


def test_cuda_is_asked_where_gpus_differ(machine):
    """GPU:0 of TensorFlow must never be reported with another card's memory (gputil #18)."""
    report = probe_json(machine("mixed-gpus").environment)
    assert [(g["name"], g["cuda_index"]) for g in report["gpus"]] == [
        ("NVIDIA GeForce GTX 1660 Ti", 1),
        ("NVIDIA GeForce RTX 4090", 0),
    ]


def test_different_gpus_and_no_cuda_to_ask(machine):
    recording = dataclasses.replace(load_recording("mixed-gpus"), cuda_order=None)
    report = probe_json(machine(recording).environment)
    assert [g["cuda_index"] for g in report["gpus"]] == [None, None]
    assert all("CUDA_DEVICE_ORDER" in g["not_available"]["cuda_index"] for g in report["gpus"])
    sure = probe_json(machine(recording, environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).environment)
    assert [g["cuda_index"] for g in sure["gpus"]] == [0, 1]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("", [None] * 3), ("2", [None, None, 0]), ("2,0", [1, None, 0]), ("0,0", [None] * 3), ("1,-1,0", [None, 0, None])],
)
def test_hidden_gpus_are_listed(machine, visible, expected):
    recording = load_recording("server-8-lost")
    three = dataclasses.replace(recording, gpu=recording.gpu[:3])
    report = probe_json(machine(three, environment={"CUDA_VISIBLE_DEVICES": visible}).environment)
    assert [g["cuda_index"] for g in report["gpus"]] == expected
    assert all(
        g["not_available"]["cuda_index"].startswith("hidden by") for g in report["gpus"] if g["cuda_index"] is None
    )
    assert any("hides all" in w for w in report["warnings"]) == (expected == [None] * 3)


def test_driver_without_v2_memory(machine):
    """gpustat #141: v1 counts what the driver reserves as used, v2 does not; free is the same."""
    old = probe_json(machine("driver-470").environment)["gpus"][0]
    new = probe_json(machine(dataclasses.replace(load_recording("driver-470"), without=[])).environment)["gpus"][0]
    assert (old["memory_source"], new["memory_source"]) == ("nvml_v1", "nvml_v2")
    assert old["memory_reserved_bytes"] is None
    assert old["memory_used_bytes"] == new["memory_used_bytes"] + new["memory_reserved_bytes"]
    assert old["memory_free_bytes"] == new["memory_free_bytes"]
    assert old["processes"] == []


def test_driver_too_old_for_tensorflow(machine):
    assert any("older than 525.60.13" in w for w in probe_json(machine("driver-470").environment)["warnings"])


def test_driver_without_either_memory_call(machine):
    both = ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"]
    recording = dataclasses.replace(load_recording("t4"), without=both)
    report = probe_json(machine(recording).environment)
    gpu = report["gpus"][0]
    assert gpu["memory_total_bytes"] is None
    assert gpu["not_available"]["memory_usable_bytes"] == "this driver does not offer it"
    assert any("memory cannot be read" in w for w in report["warnings"])


def test_wsl2_unknown_error_from_v2_and_no_process_memory(machine):
    """nvitop PR 30 and nvtop #432."""
    gpu = probe_json(machine("wsl2").environment)["gpus"][0]
    assert gpu["memory_source"] == "nvml_v1"
    assert [p["memory_bytes"] for p in gpu["processes"]] == [None]


@pytest.mark.parametrize("version", ["535.43.02", "535.54.03", "535.86.10"])
def test_drivers_with_odd_process_lists(machine, version):
    """gpustat #161, #157, pynvml #50: wrong process numbers and sizes."""
    recording = dataclasses.replace(load_recording("rtx-4090"), driver_version=version)
    gpu = probe_json(machine(recording).environment)["gpus"][0]
    assert gpu["processes"] is None
    assert "update" in gpu["not_available"]["processes"]


def test_drivers_beside_them_are_read(machine):
    recording = dataclasses.replace(load_recording("rtx-4090"), driver_version="535.104.05")
    gpu = probe_json(machine(recording).environment)["gpus"][0]
    assert [(p["pid"], p["memory_bytes"]) for p in gpu["processes"]] == [(51877, 10240 * MIB), (2214, 610 * MIB)]


def test_mig_parent_in_a_container_has_no_permission(machine):
    """nvidia-container-toolkit #842: the slice's own handle answers."""
    gpu = probe_json(machine("a100-mig-container").environment)["gpus"][0]
    assert gpu["not_available"]["memory_total_bytes"] == "needs permission: MIG parent"
    (part,) = gpu["mig"]["slices"]
    assert (part["cuda_index"], part["memory_total_bytes"], part["multiprocessors"]) == (0, 9984 * MIB, 28)
    assert 0 < part["memory_usable_bytes"] < 9984 * MIB


def test_mig_slice_by_uuid(machine):
    """vllm #41848, pytorch #95784."""
    wanted = load_recording("a100-mig-host").gpu[0].slices[2].uuid
    gpu = probe_json(machine("a100-mig-host", environment={"CUDA_VISIBLE_DEVICES": wanted}).environment)["gpus"][0]
    assert [s["cuda_index"] for s in gpu["mig"]["slices"]] == [None, None, 0]
    assert gpu["cuda_index"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"errors": {"memory_v2": 3, "memory_v1": 3}},
        {"memory": RecordedMemory(total_mib=0)},
        # Success with misleading figures, as some driver versions answer on GB10.
        {"memory": RecordedMemory(total_mib=512, reserved_mib=0, used_mib=100)},
    ],
)
def test_unified_memory_is_the_hosts(machine, changes):
    """nvitop #168 and PR 208, dra-driver-nvidia-gpu #1073, nvtop PR 411."""
    report = probe_json(machine(altered("gb10", **changes)).environment)
    gpu = report["gpus"][0]
    assert gpu["memory_source"] == "host"
    assert gpu["memory_total_bytes"] > 2**30
    assert any("unified memory" in w for w in report["warnings"])


def test_a_large_discrete_gpu_is_not_unified(machine):
    """llama.cpp #17536: an RTX 5090 was taken for unified memory."""
    recording = altered("rtx-4090", name="NVIDIA GeForce RTX 5090", memory=RecordedMemory(total_mib=32607))
    recording.gpu[0].values["compute_capability"] = [12, 0]
    report = probe_json(machine(recording).environment)
    assert report["gpus"][0]["memory_source"] == "nvml_v2"
    assert any("12.0" in w and "compiled at first use" in w for w in report["warnings"])


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (18, "different versions"),
        (9, "driver is not loaded"),
        (4, "needs permission"),
        (999, "unknown error"),
        (13, "does not offer it"),
    ],
)
def test_a_driver_that_does_not_start_is_one_sentence(machine, code, says):
    """gpustat #147; hashcat PR 2773 (the library aborts if nvmlErrorString is called)."""
    environment = machine(dataclasses.replace(load_recording("t4"), init_error=code)).environment
    report = probe_json(environment)
    assert report["gpus"] == []
    (sentence,) = report["warnings"]
    assert says in sentence
    done = run_cli("probe", "--require-gpu", environment=environment)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_library_is_told_from_a_missing_one(tmp_path):
    """Containers mount empty stand-ins: the library is there and cannot be loaded."""
    (tmp_path / "libnvidia-ml.so.1").touch()
    (sentence,) = probe_json(clean_environment() | {"LD_LIBRARY_PATH": str(tmp_path)})["warnings"]
    assert "cannot be loaded" in sentence


def test_another_package_named_pynvml(tmp_path):
    """An unofficial package can hide nvidia-ml-py; gpustat and zeus test for it too."""
    (tmp_path / "pynvml.py").write_text("def nvmlInit(): raise RuntimeError('not the real one')\n")
    (sentence,) = probe_json(clean_environment() | {"PYTHONPATH": str(tmp_path)})["warnings"]
    assert "nvidia-ml-py" in sentence


def test_process_names_only_where_the_numbers_are_ours(machine):
    """nvidia-docker #1483: in a container NVML gives the host's process numbers, which are other processes here."""
    ours = Path("/proc/self/ns/pid").readlink() == Path("pid:[4026531836]")
    recording = load_recording("rtx-4090")
    first = dataclasses.replace(recording.gpu[0].processes[1], pid=1)
    gpu = dataclasses.replace(recording.gpu[0], processes=[first])
    (process,) = probe_json(machine(dataclasses.replace(recording, gpu=[gpu])).environment)["gpus"][0]["processes"]
    assert (process["name"] is not None) == ours


def test_every_recorded_capability_is_readable():
    for name in recording_names():
        for gpu in probe(replay=name).gpus:
            assert gpu.lost or parse_capability(gpu.compute_capability or "") >= (7, 0)


def test_a_gpu_too_small_for_tensorflow(machine):
    """TensorFlow leaves out GPUs of fewer than 8 SMs beside larger ones, so that its numbers are not CUDA's."""
    recording = load_recording("mixed-gpus")
    recording.gpu[0].values["cores"] = 6 * 64
    assert any("TensorFlow ignores GPU 0 (6 SMs" in w for w in probe_json(machine(recording).environment)["warnings"])
    alone = dataclasses.replace(recording, gpu=recording.gpu[:1])
    assert not any("ignores" in w for w in probe_json(machine(alone).environment)["warnings"])
