"""Deep Q-learning with a replay memory and a target network: a walker learns to go right, through a door that opens by waiting."""

import math
import random
from collections import deque, namedtuple
from itertools import count

import dynograd as torch
import dynograd.nn as nn
import dynograd.nn.functional as F
import dynograd.optim as optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class Corridor:
    """Six places; the door at 3 lets pass who has waited there once. Reward 1 at the end, -0.02 a step."""

    def reset(self):
        self.place, self.waited, self.steps = 0, False, 0
        return self.state()

    def state(self):
        return [self.place / 5, float(self.waited), float(self.place == 3)]

    def step(self, action):
        self.steps += 1
        if action == 1 and (self.place != 3 or self.waited):
            self.place += 1
        elif action == 0:
            self.place = max(0, self.place - 1)
        elif action == 2 and self.place == 3:
            self.waited = True
        done = self.place == 5
        return self.state(), 1.0 if done else -0.02, done, self.steps >= 40


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 32)
        self.layer2 = nn.Linear(32, 32)
        self.layer3 = nn.Linear(32, n_actions)

    def forward(self, x):
        return self.layer3(F.relu(self.layer2(F.relu(self.layer1(x)))))


def select_action(policy, state, steps_done):
    eps = 0.05 + 0.85 * math.exp(-steps_done / 400)
    if random.random() > eps:
        with torch.no_grad():
            return policy(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(3)]], dtype=torch.long)


def optimize(policy, target, memory, optimizer, batch_size=32, gamma=0.97):
    if len(memory) < batch_size:
        return
    batch = Transition(*zip(*memory.sample(batch_size), strict=True))
    non_final_mask = torch.tensor(tuple(s is not None for s in batch.next_state), dtype=torch.bool)
    values = policy(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    next_values = torch.zeros(batch_size)
    if non_final_mask.any():
        with torch.no_grad():
            next_values[non_final_mask] = (
                target(torch.cat([s for s in batch.next_state if s is not None])).max(1).values
            )
    expected = next_values * gamma + torch.cat(batch.reward)
    loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()


def main(steps=120):
    random.seed(1)
    torch.manual_seed(1)
    env = Corridor()
    policy, target = DQN(3, 3), DQN(3, 3)
    target.load_state_dict(policy.state_dict())
    optimizer = optim.AdamW(policy.parameters(), lr=2e-3, amsgrad=True)
    memory = ReplayMemory(4000)
    steps_done, durations = 0, []
    for _ in range(steps):
        state = torch.tensor(env.reset(), dtype=torch.float32).unsqueeze(0)
        for t in count():
            action = select_action(policy, state, steps_done)
            steps_done += 1
            observation, reward, terminated, truncated = env.step(action.item())
            next_state = None if terminated else torch.tensor(observation, dtype=torch.float32).unsqueeze(0)
            memory.push(state, action, next_state, torch.tensor([reward]))
            state = next_state
            optimize(policy, target, memory, optimizer)
            target_state, policy_state = target.state_dict(), policy.state_dict()
            for key in policy_state:
                target_state[key] = policy_state[key] * 0.01 + target_state[key] * 0.99
            target.load_state_dict(target_state)
            if terminated or truncated:
                durations.append(t + 1)
                break
    return {"first": sum(durations[:20]) / 20, "last": sum(durations[-20:]) / 20}


if __name__ == "__main__":
    print(main())
