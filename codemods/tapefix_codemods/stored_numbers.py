"""Numbers are stored while playing and differentiated later.

Log-probabilities, values or losses are kept as plain numbers (an episode buffer, a replay memory, a cache) before the
tape is opened. Its block then finds numbers without a history, and no gradient reaches the weights that made them.

Before
------
    for _ in range(steps):
        log_prob = tf.nn.log_softmax(policy(state))[0, action]
        log_probs.append(float(log_prob))
        state = env.step(action)
    with tf.GradientTape() as tape:
        loss = -sum(p * r for p, r in zip(log_probs, returns))

After
-----
    with tf.GradientTape() as tape:
        for _ in range(steps):
            log_prob = tf.nn.log_softmax(policy(state))[0, action]
            log_probs.append(log_prob)
            state = env.step(action)
        loss = -sum(p * r for p, r in zip(log_probs, returns))

Fix
---
Unsafe: the tensors are kept and the tape opens before the roll-out, which keeps the first loss and costs memory.
Where the memory outlives the step (replay, PPO's epochs), store states and actions instead and run the model on them
inside the tape; no rewrite is offered for that.

See https://www.tensorflow.org/tutorials/reinforcement_learning/actor_critic
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from tapefix.codemod import Applicability, Codemod, Fix, Refusal
from tapefix.flow import Cut, How, Model
from tapefix.rewrite.leaving import before_the_tape, escapes, numbers

_RECOMPUTE = "store the inputs and the choices, and run the model on them again inside the tape's block"


class StoredNumbers(Codemod):
    code = "TAP209"
    name = "stored-numbers"
    speaks_for: ClassVar = frozenset({How.TO_NUMPY, How.PYTHON_NUMBER})
    why = "what is stored as a number before the tape is opened has no history inside its block"

    def applies(self, model: Model, cut: Cut) -> bool:
        return before_the_tape(model, cut)

    def fix(self, model: Model, cut: Cut) -> Fix | Refusal:
        outcome = numbers.kept(model, cut) if cut.how is How.PYTHON_NUMBER else escapes.kept(model, cut)
        if isinstance(outcome, Refusal):
            return Refusal(f"{outcome.reason}; or {_RECOMPUTE}")
        return replace(outcome, applicability=Applicability.UNSAFE, alternatives=(*outcome.alternatives, _RECOMPUTE))
