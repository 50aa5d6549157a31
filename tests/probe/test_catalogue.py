from __future__ import annotations

import pytest

from autotune.errors import UsageError
from autotune.probe.catalogue import load_catalogue, user_file
from autotune.probe.recorded import load_recording, recording_names
from autotune.probe.tensor_cores import parse_capability, verdict

CATALOGUE = load_catalogue()
BOARDS = {b.id: b for b in CATALOGUE.boards}

# CUDA cores of one SM, two operations each per clock.
FLOAT32_PER_SM_CLOCK = {"6.0": 128, "7.0": 128, "7.5": 128, "8.0": 128}
# Dense Tensor Core operations of one SM per clock, float16 in, float32 accumulated: the most that any board of that
# compute capability does. Twice as much would be a figure with sparsity.
TENSOR_PER_SM_CLOCK = {"7.0": 1024, "7.5": 1024, "8.0": 2048, "8.6": 1024, "8.7": 2048, "8.9": 1024}
TENSOR_PER_SM_CLOCK |= {"9.0": 4096, "10.0": 8192, "12.0": 1024, "12.1": 1024}

RESEARCHED = """P100-PCIE-16GB P100-SXM2-16GB V100-PCIE-16GB V100-PCIE-32GB V100-SXM2-16GB V100-SXM2-32GB T4 RTX-2080-TI
GTX-1660-TI GTX-1650 A10 A10G A30 A40 A100-PCIE-40GB A100-PCIE-80GB A100-SXM-40GB A100-SXM-80GB RTX-3090 RTX-4090
RTX-5090 L4 L40S RTX-6000-ADA H100-PCIE-80GB H100-SXM-80GB H100-NVL-94GB H200-SXM-141GB H200-NVL-141GB B200 GB10
AGX-ORIN-64GB"""


def test_the_boards_people_use_are_there():
    assert set(RESEARCHED.split()) <= set(BOARDS)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_internal_sense(board):
    clock = board.boost_clock_mhz * 1e6 * board.sm_count
    assert board.float32_flops_per_s == pytest.approx(
        clock * FLOAT32_PER_SM_CLOCK.get(board.compute_capability, 256), rel=0.15
    )
    cores = verdict(parse_capability(board.compute_capability), board.names[0])
    assert cores.generation == board.architecture
    assert set(board.tensor_flops_per_s) == set(cores.dtypes) & {"float16", "bfloat16", "tf32"}
    for dtype, peak in board.tensor_flops_per_s.items():
        most = clock * TENSOR_PER_SM_CLOCK[board.compute_capability] / (2 if dtype == "tf32" else 1)
        assert most * 0.35 < peak <= most * 1.02
    if "bfloat16" in board.tensor_flops_per_s:
        assert board.tensor_flops_per_s["bfloat16"] == board.tensor_flops_per_s["float16"]
    assert 2**31 < board.memory_total_bytes < 300 * 2**30
    # Bytes of bandwidth per byte of memory: from a slow L4 (13/s) to a B200 (42/s) and small cards (56/s).
    assert 1 < board.memory_bandwidth_bytes_per_s / board.memory_total_bytes < 100
    assert board.memory_reserved_bytes is None or board.memory_reserved_bytes < 0.05 * board.memory_total_bytes
    assert (board.memory_reserved_bytes is None) == board.unified_memory
    assert 30 <= board.tdp_w <= 1500


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_every_figure_has_a_source(board):
    figures = {
        "sm_count",
        "boost_clock_mhz",
        "memory_total_bytes",
        "memory_bandwidth_bytes_per_s",
        "float32_flops_per_s",
    }
    figures |= {"tdp_w", *(f"tensor_flops_per_s.{d}" for d in board.tensor_flops_per_s)}
    figures |= {n for n in ("memory_reserved_bytes", "float16_flops_per_s") if getattr(board, n) is not None}
    assert set(board.provenance) == figures
    for origin in board.provenance.values():
        assert origin.source.split()[0] in CATALOGUE.sources


def test_names_are_unique():
    names = [n.lower() for b in CATALOGUE.boards for n in (b.id, *b.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("text", "board"),
    [
        ("A100-SXM-80GB", "A100-SXM-80GB"),
        ("A100-80GB", "A100-SXM-80GB"),
        ("a100-80gb", "A100-SXM-80GB"),
        ("A100_40GB", "A100-SXM-40GB"),
        ("h100", "H100-SXM-80GB"),
        ("NVIDIA L4".removeprefix("NVIDIA "), "L4"),
        ("GeForce RTX 4090", "RTX-4090"),
    ],
)
def test_find(text, board):
    assert CATALOGUE.find(text).id == board


def test_unknown_gpu_names_the_nearest_and_the_mend():
    with pytest.raises(UsageError, match=r"A100-SXM-80GB.*--catalogue"):
        CATALOGUE.find("A100-SMX-80GB")


def test_every_recorded_board_is_found_by_its_name():
    for name in recording_names():
        for gpu in load_recording(name).gpu:
            if gpu.name:
                found = CATALOGUE.match(gpu.name)
                assert found is not None, gpu.name
                if gpu.memory is not None:
                    assert found.memory_total_bytes == gpu.memory.total_mib * 2**20


OWN = """
[sources]
mine = "my own measurement"

[[gpu]]
id = "X1"
architecture = "Blackwell"
compute_capability = "12.0"
sm_count = { value = 10, source = "mine", confidence = "measured" }
boost_clock_mhz = { value = 2000, source = "mine", confidence = "measured" }
memory_total_mib = { value = 8192, source = "mine", confidence = "measured" }
memory_bandwidth_gb_per_s = { value = 200, source = "mine", confidence = "measured" }
tensor_tflops.float16 = { value = 10, source = "mine", confidence = "measured" }
float32_tflops = { value = 5, source = "mine", confidence = "measured" }
tdp_w = { value = 60, source = "mine", confidence = "measured" }
"""


def test_a_users_own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert user_file() == tmp_path / "autotune" / "gpus.toml"
    user_file().parent.mkdir()
    user_file().write_text(OWN + OWN.split("\n\n")[1].replace('"X1"', '"T4"').join(["\n", "\n"]))
    own = load_catalogue()
    assert own.find("x1").tensor_flops_per_s == {"float16": 10e12}
    assert own.find("T4").sm_count == 10
    assert len(own.boards) == len(CATALOGUE.boards) + 1


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("tdp_w = { value = 60,", "tdp_w = { value = -1,", "gpu X1.tdp_w"),
        ('tdp_w = { value = 60, source = "mine", confidence = "measured" }', "tdp_w = 60", "gpu X1.tdp_w"),
        ('tdp_w = { value = 60, source = "mine", ', "tdp_w = { value = 60, ", "source"),
        ('id = "X1"', 'id = "X1"\ncolour = "red"', "colour"),
        ("tdp_w", "tpd_w", "tpd_w"),
        ('confidence = "measured" }\ntensor', 'confidence = "sure" }\ntensor', "confidence"),
        ("[[gpu]]", "[[gpu", "cannot be read"),
    ],
)
def test_a_wrong_file_is_told_where(tmp_path, old, new, says):
    path = tmp_path / "mine.toml"
    assert old in OWN
    path.write_text(OWN.replace(old, new, 1))
    with pytest.raises(UsageError, match=says):
        load_catalogue(path)
