"""What you run: training, tournaments, analysis. Imports agents and cribbage_env."""
