"""The torch-mlir targets: import, the lowering pipelines, and execution on the wheel's own engine."""
