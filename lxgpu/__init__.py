"""lxgpu: shared GPU servers where everybody keeps an own machine."""

__version__ = "0.1.0"
