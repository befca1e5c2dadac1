"""The play, solved: its public game tree, regret minimisation, exact best responses, and the agent that plays them."""
