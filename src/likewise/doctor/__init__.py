"""What in the data will hurt, what it does, and what to do about it."""

from likewise.doctor.examining import Finding, Findings, examine

__all__ = ["Finding", "Findings", "examine"]
