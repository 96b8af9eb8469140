"""Wrapper distributions for upstream projects that publish one project in many builds."""

__version__ = "0.1.0"
