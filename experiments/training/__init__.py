"""Training by self-play: collection, learners (one file each), runs that can be stopped and resumed."""
