"""Agents that play cribbage: observations in, actions out. Import this package and say ``make_agent(spec)``."""

from agents.base import Agent, AgentError, decision_keys, named_in, sample_actions
from agents.registry import agent_names, load_modules, make_agent, register_agent

__all__ = [
    "Agent",
    "AgentError",
    "agent_names",
    "decision_keys",
    "load_modules",
    "make_agent",
    "named_in",
    "register_agent",
    "sample_actions",
]
