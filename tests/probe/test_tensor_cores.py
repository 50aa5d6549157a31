from __future__ import annotations

import pytest

from autotune.core.gpu import TensorCores
from autotune.probe.tensor_cores import advise, kernel_warning, parse_capability, verdict

FULL = ("float16", "bfloat16", "tf32", "float8", "int8")
AMPERE = ("float16", "bfloat16", "tf32", "int8")


@pytest.mark.parametrize(
    ("capability", "name", "generation", "dtypes", "policy"),
    [
        ((3, 7), "Tesla K80", "Kepler", (), "float32"),
        ((5, 2), "NVIDIA GeForce GTX 980", "Maxwell", (), "float32"),
        ((6, 0), "Tesla P100-PCIE-16GB", "Pascal", (), "float32"),
        ((6, 1), "NVIDIA GeForce GTX 1080 Ti", "Pascal", (), "float32"),
        ((7, 0), "Tesla V100-SXM2-16GB", "Volta", ("float16",), "mixed_float16"),
        ((7, 2), "Xavier", "Volta", ("float16", "int8"), "mixed_float16"),
        ((7, 5), "Tesla T4", "Turing", ("float16", "int8"), "mixed_float16"),
        ((7, 5), "Tesla T4G", "Turing", ("float16", "int8"), "mixed_float16"),
        ((7, 5), "NVIDIA GeForce RTX 2080 Ti", "Turing", ("float16", "int8"), "mixed_float16"),
        ((7, 5), "Quadro RTX 4000", "Turing", ("float16", "int8"), "mixed_float16"),
        ((7, 5), "Quadro RTX 6000", "Turing", ("float16", "int8"), "mixed_float16"),
        ((7, 5), "NVIDIA TITAN RTX", "Turing", ("float16", "int8"), "mixed_float16"),
        ((8, 0), "NVIDIA A100-SXM4-40GB", "Ampere", AMPERE, "mixed_bfloat16"),
        ((8, 6), "NVIDIA GeForce RTX 3090", "Ampere", AMPERE, "mixed_bfloat16"),
        ((8, 6), "NVIDIA RTX A2000", "Ampere", AMPERE, "mixed_bfloat16"),
        ((8, 7), "Orin (nvgpu)", "Ampere", AMPERE, "mixed_bfloat16"),
        ((8, 9), "NVIDIA L4", "Ada", FULL, "mixed_bfloat16"),
        ((9, 0), "NVIDIA H100 80GB HBM3", "Hopper", FULL, "mixed_bfloat16"),
        ((10, 0), "NVIDIA B200", "Blackwell", FULL, "mixed_bfloat16"),
        ((10, 3), "NVIDIA B300", "Blackwell", FULL, "mixed_bfloat16"),
        ((11, 0), "NVIDIA Thor", "Blackwell", FULL, "mixed_bfloat16"),
        ((12, 0), "NVIDIA GeForce RTX 5090", "Blackwell", FULL, "mixed_bfloat16"),
        ((12, 1), "NVIDIA GB10", "Blackwell", FULL, "mixed_bfloat16"),
        ((13, 0), "NVIDIA R100", "newer than Blackwell", FULL, "mixed_bfloat16"),
    ],
)
def test_by_capability(capability, name, generation, dtypes, policy):
    cores = verdict(capability, name)
    assert (cores.present, cores.generation, cores.dtypes) == (bool(dtypes), generation, dtypes)
    advice = advise(capability, cores)
    assert advice is not None
    assert advice.policy == policy
    assert policy in advice.supported


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce GTX 1660 Ti",
        "GeForce GTX 1660 SUPER",
        "GeForce GTX 1650",
        "NVIDIA GeForce GTX 1650 Ti with Max-Q Design",
        "NVIDIA GeForce GTX 1630",
        "NVIDIA GeForce MX450",
        "NVIDIA GeForce MX550",
        "NVIDIA T400 4GB",
        "NVIDIA T550 Laptop GPU",
        "NVIDIA T1000 8GB",
        "NVIDIA T1200 Laptop GPU",
        "Quadro T1000",
        "Quadro T2000 with Max-Q Design",
        "NVIDIA CMP 30HX",
    ],
)
def test_turing_without_tensor_cores(name):
    cores = verdict((7, 5), name)
    assert cores == TensorCores(present=False, generation="Turing")
    advice = advise((7, 5), cores)
    assert advice is not None
    assert (advice.policy, advice.batch_alignment) == ("float32", 1)
    assert "no Tensor Cores" in advice.because


def test_what_cannot_be_told_is_not_told():
    assert verdict(None, "NVIDIA A100-SXM4-40GB") == TensorCores()
    assert advise(None, TensorCores()) is None
    unnamed = verdict((7, 5), None)
    assert unnamed.present is None
    advice = advise((7, 5), unnamed)
    assert advice is not None
    assert advice.policy == "float32"


def test_tensor_cores_prefer_multiples_of_eight():
    for capability, name in (((7, 0), "V100"), ((8, 0), "A100"), ((12, 0), "RTX 5090")):
        advice = advise(capability, verdict(capability, name))
        assert advice is not None
        assert advice.batch_alignment == 8
        assert advice.width_alignment % 8 == 0


@pytest.mark.parametrize("capability", ["6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0"])
def test_compiled_for(capability):
    assert kernel_warning(parse_capability(capability)) is None


@pytest.mark.parametrize(
    ("capability", "says"),
    [("10.0", "compiled at first use"), ("12.0", "compiled at first use"), ("12.1", "12.1"), ("5.2", "lowest: 6.0")],
)
def test_not_compiled_for(capability, says):
    assert says in (kernel_warning(parse_capability(capability)) or "")


def test_no_capability_no_warning():
    assert kernel_warning(None) is None
