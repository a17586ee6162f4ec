"""switchmark, the reference benchmark for virtual switches in NFV."""

__version__ = "0.1.0"
