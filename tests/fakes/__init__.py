"""Loopback stand-ins for the servers that metawheel and its users talk to."""
