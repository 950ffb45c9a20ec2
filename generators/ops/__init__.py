"""The operators, one module per family; each exports `OPS`, a tuple of OpSpec."""
