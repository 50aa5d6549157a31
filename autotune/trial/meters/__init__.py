"""Meters outside the trial's process: they survive its death, one file each."""
