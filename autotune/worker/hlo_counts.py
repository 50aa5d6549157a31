"""Operations and memory traffic of a compiled program, from its HLO."""

from __future__ import annotations

from typing import Any

# Bytes of an element by XLA's primitive type (xla_data.proto); what is missing (tuples, tokens) has no data of its own.
_ELEMENT_BYTES = {
    1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 15: 8, 16: 2, 18: 16, 19: 1, 20: 1,
}  # fmt: skip
# Instructions that move no data.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "while", "conditional", "call"}


def flops(module: Any) -> float:
    """Counts matrix products and convolutions, two operations for each multiply-add; everything else is traffic.

    Args:
        module: ``HloModuleProto`` before optimisation (the optimiser may turn products into calls of libraries).
    """
    total = 0.0
    for computation in module.computations:
        shapes = {i.id: i.shape for i in computation.instructions}
        for instruction in computation.instructions:
            operands = [shapes[n] for n in instruction.operand_ids]
            if instruction.opcode == "dot":
                contracted = instruction.dot_dimension_numbers.lhs_contracting_dimensions
                depth = _product(operands[0].dimensions[d] for d in contracted)
                total += 2.0 * _product(instruction.shape.dimensions) * depth
            elif instruction.opcode == "convolution":
                total += 2.0 * _product(instruction.shape.dimensions) * _taps(instruction, operands[1])
    return total


def _taps(instruction: Any, kernel: Any) -> float:
    """Multiply-adds for one output element: kernel positions that meet data, times input features."""
    numbers = instruction.convolution_dimension_numbers
    features = kernel.dimensions[numbers.kernel_input_feature_dimension]
    positions = 1.0
    for i, window in enumerate(instruction.window.dimensions):
        out = instruction.shape.dimensions[numbers.output_spatial_dimensions[i]]
        # Zeros between or around the data are no work: a stretched or padded side meets data at part of its positions.
        reach = window.size * out
        stretched = max(1, window.base_dilation)
        positions *= min(window.size, reach / stretched / out) if stretched > 1 else window.size
    return positions * features


def traffic(module: Any) -> float:
    """Counts bytes that kernels read and write: operands and results of what is not fused into something else.

    Args:
        module: ``HloModuleProto`` after optimisation, without loops whose trip count matters.
    """
    fused = {
        called
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode not in ("while", "conditional", "call")
        for called in instruction.called_computation_ids
    }
    total = 0.0
    for computation in module.computations:
        if computation.id in fused:
            continue
        shapes = {i.id: i.shape for i in computation.instructions}
        for instruction in computation.instructions:
            if instruction.opcode not in _FREE:
                total += _bytes(instruction.shape) + sum(_bytes(shapes[n]) for n in instruction.operand_ids)
    return total


def _bytes(shape: Any) -> float:
    if shape.tuple_shapes:
        return sum(_bytes(part) for part in shape.tuple_shapes)
    return _product(shape.dimensions) * _ELEMENT_BYTES.get(shape.element_type, 0)


def _product(numbers: Any) -> float:
    result = 1.0
    for number in numbers:
        result *= number
    return result
