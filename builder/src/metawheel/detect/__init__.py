"""Which accelerators a machine has, and which backend fits them: probes of one vendor a module, then the choice."""
