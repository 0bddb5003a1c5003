"""Reading traces: rows, one-pass statistics, and writers of other formats."""
