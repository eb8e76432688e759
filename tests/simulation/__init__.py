"""The simulation: whole runs by seed, on a virtual clock, with a network and a disk that fail."""
