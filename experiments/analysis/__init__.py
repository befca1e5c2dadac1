"""Analyses: what rules, discards and positions are worth."""
