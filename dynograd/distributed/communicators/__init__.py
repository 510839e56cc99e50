"""Engines that move arrays between processes: a group of one, MPI, threads that stand for processes."""
