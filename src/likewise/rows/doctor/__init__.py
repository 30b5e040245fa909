"""Problems in the data: what they are, what they do to a model, and what to do about them."""

from likewise.rows.doctor.examining import Finding, Findings, examine

__all__ = ["Finding", "Findings", "examine"]
