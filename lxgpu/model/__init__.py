"""What exists: frozen values, without clocks and without I/O."""
