"""``cribbage train`` as a module, for ``torchrun``: it starts several processes (ranks) that learn together.

    torchrun --standalone --nproc-per-node=2 -m experiments.training configs/train/quickstart.yaml

takes the arguments of ``cribbage train``. Without ``torchrun``, ``python -m experiments.training CONFIG`` is
``cribbage train CONFIG``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

from experiments import cli
from experiments.training.command import started_by_torchrun


def main() -> int:
    """Run ``cribbage train`` with this process's arguments; returns the exit code."""
    arguments = ["train", *sys.argv[1:]]
    if not started_by_torchrun() or os.environ["RANK"] == "0":
        return cli.main(arguments)
    # One of several is heard. What ends the run is said by whoever comes first: see experiments.training.ranks.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            return cli.main(arguments)
        except Exception:
            traceback.print_exc(file=sys.__stderr__)
            return 1


if __name__ == "__main__":
    sys.exit(main())
