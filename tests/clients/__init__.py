"""Tests that let real clients resolve, lock and install from a built site."""
