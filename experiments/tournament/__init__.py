"""Matches on duplicate deals, tournaments, and their statistics."""
