"""CUDA's numbering, against published vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.probe.cuda_order import hex_digits, match_uuids
from autotune.probe.visible import Enumeration, Physical, Slice, enumerate_devices, visible_uuids

# PyTorch PR 92315, TestVisibleDeviceParses, "matching the 525.60.13 driver".
PYTORCH_UUIDS = [
    "GPU-9942190a-aa31-4ff1-4aa9-c388d80f85f1",
    "GPU-9e8d35e3-a134-0fdd-0e01-23811fdbd293",
    "GPU-e429a63e-c61c-4795-b757-5132caeb8e70",
    "GPU-eee1dfbc-0a0f-6ad8-5ff6-dc942a8b9d98",
    "GPU-bbcd6503-5150-4e92-c266-97cc4390d04e",
    "GPU-472ea263-58d7-410d-cc82-f7fdece5bd28",
    "GPU-e56257c4-947f-6a5b-7ec9-0f45567ccf4e",
    "GPU-1c20e77d-1c1a-d9ed-fe37-18b8466a78ad",
]


def same_model(uuids=PYTORCH_UUIDS) -> Enumeration:
    return enumerate_devices([Physical(uuid=u, model="A", pci_bus_id=f"0:{i:02x}") for i, u in enumerate(uuids)], None)


def ordinals(visible: str | None, enumeration: Enumeration | None = None) -> list[int]:
    return [PYTORCH_UUIDS.index(u) for u in visible_uuids(enumeration or same_model(), visible)]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        # NVIDIA's own example
        ("0,2,-1,1", [0, 2]),
        ("2,1", [2, 1]),
        # PyTorch's vectors: ordinals
        ("1gpu2,2ampere", [1, 2]),
        ("0, 1, 2, -1, 3", [0, 1, 2]),
        ("0, 1, 2, 1", []),
        ("2, +3, -0, 5", [2, 3, 0, 5]),
        ("one,two,3,4", []),
        ("4,3,two,one", [4, 3]),
        # PyTorch's vectors: UUIDs
        ("GPU-9e8d35e3", [1]),
        ("GPU-e4,GPU-9e8d35e3", [2, 1]),
        ("GPU-9e8d35e3,GPU-1,GPU-47", [1, 7, 5]),
        ("GPU-123,GPU-9e8d35e3", []),
        ("GPU-9e8d35e3,GPU-123,GPU-47", [1]),
        ("GPU-9e8d35e3,GPU-e,GPU-47", [1]),
        ("GPU-9e8d35e3,GPU-47,GPU-9e8d35e3", []),
        ("GPU-9e8d35e3,GPU-9e8d", []),
        ("GPU-9e8d35e3, 2", [1]),
        ("GPU-9e8d35e3,2", [1]),
        ("2,GPU-9e8d35e3", [2]),
        # out of range ends the list
        ("7,8,0", [7]),
        ("8", []),
        (" 3 ,1", [3, 1]),
        ("0,,1", [0]),
        (",0", []),
        ("+", []),
        ("0x1", [0]),
        ("MIG-123", []),
    ],
)
def test_published_vectors(visible, expected):
    assert ordinals(visible) == expected


def test_an_ordinal_out_of_range_ends_the_list():
    two = same_model(PYTORCH_UUIDS[:2])
    assert ordinals("1, 5, 0", two) == [1]


@given(st.lists(st.integers(-3, 12), max_size=6))
def test_plain_numbers(numbers):
    """Against the rule read aloud: repeated gives nothing; else up to the first negative or unknown one."""
    upto = next((i for i, n in enumerate(numbers) if n < 0), len(numbers))
    listed = numbers[:upto]
    expected = [] if len(set(listed)) < len(listed) else listed
    expected = expected[: next((i for i, n in enumerate(expected) if n >= 8), len(expected))]
    assert ordinals(",".join(map(str, numbers))) == expected


@given(st.text(alphabet="0123456789,+- GPUMIGabcdef-/", max_size=40))
def test_any_text_gives_known_gpus_once(text):
    found = visible_uuids(same_model(), text)
    assert len(set(found)) == len(found)
    assert set(found) <= set(PYTORCH_UUIDS)


def test_bus_order_counts_not_nvml_order():
    listed = [
        Physical(uuid="GPU-b", model="A", pci_bus_id="00000000:0B:00.0"),
        Physical(uuid="GPU-a", model="A", pci_bus_id="00000000:07:00.0"),
    ]
    assert visible_uuids(enumerate_devices(listed, "PCI_BUS_ID"), "0") == ("GPU-a",)


@pytest.mark.parametrize("order", [None, "FASTEST_FIRST", "pci_bus_id"])
def test_different_gpus_are_not_guessed(order):
    listed = [Physical(uuid="GPU-slow", model="1660"), Physical(uuid="GPU-fast", model="4090")]
    unsure = enumerate_devices(listed, order)
    assert visible_uuids(unsure, None) == (None, None)
    assert visible_uuids(unsure, "1") == (None,)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in (unsure.doubt or "")
    # A UUID needs no order.
    assert visible_uuids(unsure, "GPU-fast,GPU-slow") == ("GPU-fast", "GPU-slow")


def test_different_gpus_in_bus_order_are_sure():
    listed = [Physical(uuid="GPU-slow", model="1660"), Physical(uuid="GPU-fast", model="4090")]
    assert visible_uuids(enumerate_devices(listed, "PCI_BUS_ID"), None) == ("GPU-slow", "GPU-fast")


def test_a_lost_gpu_leaves_only_those_before_it_sure():
    listed = [Physical(uuid="GPU-0", model="A"), Physical(uuid=None), Physical(uuid="GPU-2", model="A")]
    unsure = enumerate_devices(listed, None)
    assert visible_uuids(unsure, None) == ("GPU-0", None, None)
    assert visible_uuids(unsure, "2,0") == (None, "GPU-0")
    assert visible_uuids(unsure, "GPU-2") == ("GPU-2",)
    assert "lost" in (unsure.doubt or "")


MIG_GPU = Physical(
    uuid="GPU-aaaa",
    model="A100",
    mig_enabled=True,
    slices=(Slice(uuid="MIG-1111", legacy="MIG-GPU-aaaa/1/0"), Slice(uuid="MIG-2222", legacy="MIG-GPU-aaaa/2/0")),
)
WHOLE_GPU = Physical(uuid="GPU-bbbb", model="A100")


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ("MIG-1111",)),
        ("0", ("MIG-1111",)),
        ("0,1", ("MIG-1111",)),
        ("1,0", ("MIG-1111",)),
        ("1", ("GPU-bbbb",)),
        ("MIG-2222", ("MIG-2222",)),
        ("MIG-2", ("MIG-2222",)),
        ("MIG-2222,MIG-1111", ("MIG-2222",)),
        ("MIG-", ()),
        ("MIG-3333", ()),
        ("MIG-2222,MIG-2222", ()),
        ("MIG-GPU-aaaa/2/0", ("MIG-2222",)),
        ("GPU-aaaa", ("MIG-1111",)),
        ("GPU-bbbb", ("GPU-bbbb",)),
        ("", ()),
    ],
)
def test_mig_gives_one_slice_and_nothing_beside_it(visible, expected):
    assert visible_uuids(enumerate_devices([MIG_GPU, WHOLE_GPU], None), visible) == expected


def test_mig_without_slices_is_no_cuda_device():
    bare = Physical(uuid="GPU-aaaa", model="A100", mig_enabled=True)
    assert visible_uuids(enumerate_devices([bare, WHOLE_GPU], None), None) == ("GPU-bbbb",)


def test_cudas_own_answer_is_matched_by_digits():
    known = ["GPU-9942190a-aa31-4ff1-4aa9-c388d80f85f1", "MIG-5a000001-77aa-5bd0-8c3e-00abcdef0001"]
    answer = [hex_digits(known[1]), "00" * 16, hex_digits(known[0])]
    assert match_uuids(answer, known) == (known[1], None, known[0])
