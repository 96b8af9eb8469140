"""Other people's programs and data that judge or read what we make: packse, devpi, PyPI's real wheels."""
