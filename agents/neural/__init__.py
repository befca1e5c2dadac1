"""Agents that value actions with neural networks. PyTorch is imported here and nowhere else below ``agents``."""
