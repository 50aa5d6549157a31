"""Capacity planning as values and policy: what will fit, how fast, on which GPU, with what certainty."""
