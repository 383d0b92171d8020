"""Ratios against named rivals, measured in one run on a lab; `make bench`."""
