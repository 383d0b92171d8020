"""Helpers that several tests share lie beside this file and are imported by their name."""
