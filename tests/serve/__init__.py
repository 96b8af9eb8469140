"""Tests of `metawheel serve` and of static hosting: real servers on loopback."""
