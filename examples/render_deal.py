"""Draws a deal between two agents as seat 0 sees it, as an animated GIF: the picture in the README.

python examples/render_deal.py docs/images/deal.gif
python examples/render_deal.py deal.gif --agents greedy runs/x/checkpoint.pt --seed 5 --view all
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from PIL import Image

import cribbage_env  # noqa: F401 (registers Cribbage-v0)
from agents import AgentError, decision_keys, make_agent

Picture = NDArray[np.uint8]


def frames(specs: Sequence[str], seed: int, scores: Sequence[int], view: str | int) -> list[Picture]:
    """A picture before every decision of the deal, and one of the show."""
    env = gym.make("Cribbage-v0", episode="deal", scores=scores, render_mode="rgb_array", render_view=view)
    env.set_wrapper_attr("seat_names", specs)
    agents = [make_agent(spec) for spec in specs]
    observation, info = env.reset(seed=seed)
    pictures: list[Any] = [env.render()]
    terminated = False
    while not terminated:
        agent = agents[info["player"]]
        keys = decision_keys(seed, np.zeros(1, np.int64), np.array([len(pictures)]))
        actions = agent.act(observation["observation"][None], observation["action_mask"][None], keys)
        observation, _, terminated, _, info = env.step(actions[0])
        pictures.append(env.render())
    return pictures


def write_gif(path: Path, pictures: Sequence[Picture], seconds: float) -> None:
    """Write an animated GIF that shows each picture for so long, the last one three times as long."""
    # One palette for all: what stays the same costs nothing. MAXCOVERAGE keeps colors of a few pixels, as of the pegs.
    some = Image.fromarray(np.concatenate([pictures[0], pictures[len(pictures) // 2], pictures[-1]]))
    palette = some.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    images = [Image.fromarray(one).quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures]
    durations = [round(1000 * seconds)] * (len(images) - 1) + [round(3000 * seconds)]
    path.parent.mkdir(parents=True, exist_ok=True)
    images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True)


def main() -> None:
    """Draw the deal that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the GIF to write")
    parser.add_argument("--agents", nargs=2, default=["expected", "greedy"], help="specs, for seats 0 and 1")
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--scores", type=int, nargs=2, default=[84, 79])
    parser.add_argument("--view", default="0", choices=["player", "all", "0", "1"], help="whose cards are face up")
    parser.add_argument("--seconds", type=float, default=1.2, help="for each picture")
    args = parser.parse_args()
    view = int(args.view) if args.view in ("0", "1") else args.view
    try:
        pictures = frames(args.agents, args.seed, args.scores, view)
        write_gif(args.output, pictures, args.seconds)
    except (AgentError, ValueError, OSError, gym.error.Error) as error:
        parser.error(str(error))
    print(f"{args.output}: {len(pictures)} pictures, {args.output.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
