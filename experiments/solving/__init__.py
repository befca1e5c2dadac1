"""``cribbage solve``: a near-equilibrium of the play, its certificate, tables and pictures."""
