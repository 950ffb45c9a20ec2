"""The only place that turns Programs and Values into torch objects and back."""
