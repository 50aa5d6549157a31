"""Pure values and policy: standard library only, no I/O, no clock, no environment."""
