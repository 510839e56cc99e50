"""A cart learns to balance a pole by policy gradients (REINFORCE, Williams 1992), in an environment of 40 lines.

python examples/reinforce.py                          trains, tests
python examples/reinforce.py --steps 50 --seed 1      see --help

Episodes end when the pole falls, each at its own step: the policy is asked for the carts that still run, and the batch of an update
is what they lived through, behind one another, without padding.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy
from tqdm import tqdm

import dynograd as torch
from dynograd import nn
from dynograd.utils import programs


class CartPoles:
    """Many carts, each with a pole to balance; equations of Barto, Sutton and Anderson (1983).

    An observation is (place, speed, angle, angular speed); actions push to the left (0) or to the right (1). An episode ends when a
    pole leans more than 12 degrees, a cart is more than 2.4 from the middle, or after `limit` steps.
    """

    gravity, cart, pole, half_length, force, seconds = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, count, limit=500, seed=0):
        self.count, self.limit = count, limit
        self.random = numpy.random.default_rng(seed)

    def reset(self):
        """Observations (count, 4) of new episodes."""
        self.states = self.random.uniform(-0.05, 0.05, (self.count, 4))
        self.steps = 0
        return self.states.astype(numpy.float32)

    def step(self, carts, actions):
        """Moves the carts of these numbers. Returns (observations, whether each still runs)."""
        place, speed, angle, turning = self.states[carts].T
        push = numpy.where(actions == 1, self.force, -self.force)
        total = self.cart + self.pole
        sin, cos = numpy.sin(angle), numpy.cos(angle)
        pull = (push + self.pole * self.half_length * turning**2 * sin) / total
        bend = (self.gravity * sin - cos * pull) / (self.half_length * (4 / 3 - self.pole * cos**2 / total))
        drift = pull - self.pole * self.half_length * bend * cos / total
        changes = numpy.stack([speed, drift, turning, bend], axis=1)
        self.states[carts] += self.seconds * changes
        self.steps += 1
        place, _, angle, _ = self.states[carts].T
        runs = (abs(place) < 2.4) & (abs(angle) < numpy.radians(12)) & (self.steps < self.limit)
        return self.states[carts].astype(numpy.float32), runs


class Policy(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 2))

    def forward(self, observations):
        """(N, 4) observations to a distribution of N actions."""
        return torch.distributions.Categorical(logits=self.layers(observations))


@torch.no_grad()
def play(policy, carts, greedy=False):
    """One episode of each cart: observations (N, 4), actions (N,), numbers of the carts (N,), all steps in order of time."""
    observed, acted, who = [], [], []
    observations, running = carts.reset(), numpy.arange(carts.count)
    while len(running):
        actions = policy(torch.from_numpy(observations))
        actions = actions.probs.argmax(1) if greedy else actions.sample()
        observed.append(observations)
        acted.append(actions.numpy())
        who.append(running)
        observations, runs = carts.step(running, acted[-1])
        observations, running = observations[runs], running[runs]
    return numpy.concatenate(observed), numpy.concatenate(acted), numpy.concatenate(who)


def returns_to_go(who, count, discount):
    """(N,): the discounted number of steps that each cart still lives, from each of its steps on."""
    after, result = numpy.zeros(count), numpy.empty(len(who))
    for place in range(len(who) - 1, -1, -1):
        after[who[place]] = 1 + discount * after[who[place]]
        result[place] = after[who[place]]
    return result


def main(steps=100, episodes=16, hidden=64, learning_rate=1e-2, discount=0.99, seed=0, limit=500, compile=False):
    """Trains `steps` updates, each on `episodes` episodes of at most `limit` steps.

    Args:
        compile: the policy's answers and its updates go through `torch.compile`.
    Returns:
        dict of mean_steps, of 100 new episodes with the likeliest actions, and first_steps, of the first update's episodes.
    """
    torch.manual_seed(seed)
    policy = Policy(hidden)
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    carts = CartPoles(episodes, limit, seed)

    def learn(observations, actions, advantages):
        loss = -(policy(observations).log_prob(actions) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)
    first = None
    started = time.perf_counter()
    bar = tqdm(range(steps), unit="update", file=sys.stdout, mininterval=0.5)
    for _ in bar:
        observations, actions, who = play(policy, carts)
        returns = returns_to_go(who, episodes, discount)
        advantages = torch.from_numpy(((returns - returns.mean()) / (returns.std() + 1e-8)).astype(numpy.float32))

        learn(torch.from_numpy(observations), torch.from_numpy(actions), advantages)
        first = first or len(who) / episodes
        bar.set_postfix_str(f"{len(who) / episodes:.0f} steps an episode", refresh=False)
    seconds = time.perf_counter() - started

    _, _, who = play(policy, CartPoles(100, limit, seed + 1000), greedy=True)
    mean = len(who) / 100
    print(f"{mean:.1f} steps an episode of at most {limit}, {first:.1f} before training ({seconds:.0f} s)")
    return {"mean_steps": mean, "first_steps": first}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--steps", type=programs.whole_number(1), default=100, help="updates of the policy (%(default)s)"
    )
    parser.add_argument("--episodes", type=programs.whole_number(1), default=16, help="for one update (%(default)s)")
    parser.add_argument("--hidden", type=programs.whole_number(1), default=64, help="units of the policy (%(default)s)")
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=1e-2, help="of Adam (%(default)s)")
    parser.add_argument("--discount", type=programs.number(0, 1), default=0.99, help="of later steps (%(default)s)")
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument(
        "--limit", type=programs.whole_number(1), default=500, help="steps of an episode at most (%(default)s)"
    )
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
