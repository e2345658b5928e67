"""Meta-World's 50 tasks in words, its action and its state: what a policy must know without the simulator."""

from __future__ import annotations

import difflib

from backbone.contracts import ActionSpec
from backbone.errors import ConfigError, InstructionError

INSTRUCTIONS: dict[str, str] = {  # one sentence a task, all different, so that each names its task exactly
    "assembly-v3": "pick up the ring by its handle and put it over the peg",
    "basketball-v3": "drop the basketball through the hoop",
    "bin-picking-v3": "move the block from the left bin to the right bin",
    "box-close-v3": "put the lid on the box",
    "button-press-topdown-v3": "press the button down from above",
    "button-press-topdown-wall-v3": "reach over the wall and press the button down from above",
    "button-press-v3": "push the button in from the front",
    "button-press-wall-v3": "reach over the wall and push the button in from the front",
    "coffee-button-v3": "press the button of the coffee machine",
    "coffee-pull-v3": "pull the mug away from the coffee machine",
    "coffee-push-v3": "push the mug under the coffee machine",
    "dial-turn-v3": "turn the dial",
    "disassemble-v3": "lift the ring off the peg",
    "door-close-v3": "push the door shut",
    "door-lock-v3": "turn the door's lock to lock it",
    "door-open-v3": "pull the door open by its handle",
    "door-unlock-v3": "turn the door's lock to unlock it",
    "drawer-close-v3": "push the drawer shut",
    "drawer-open-v3": "pull the drawer open",
    "faucet-close-v3": "turn the faucet off",
    "faucet-open-v3": "turn the faucet on",
    "hammer-v3": "drive the nail into the wood with the hammer",
    "hand-insert-v3": "put the hand into the hole in the table",
    "handle-press-side-v3": "press the handle down, standing at its side",
    "handle-press-v3": "press the handle down",
    "handle-pull-side-v3": "pull the handle up, standing at its side",
    "handle-pull-v3": "pull the handle up",
    "lever-pull-v3": "swing the lever up",
    "peg-insert-side-v3": "push the peg into the hole in the side of the block",
    "peg-unplug-side-v3": "pull the peg out of the block sideways",
    "pick-out-of-hole-v3": "take the puck out of the hole and hold it at the goal",
    "pick-place-v3": "pick up the puck and bring it to the goal",
    "pick-place-wall-v3": "pick up the puck and bring it over the wall to the goal",
    "plate-slide-back-side-v3": "drag the plate out of the goal cage sideways",
    "plate-slide-back-v3": "drag the plate out of the goal cage, back towards you",
    "plate-slide-side-v3": "slide the plate sideways into the goal cage",
    "plate-slide-v3": "slide the plate forwards into the goal cage",
    "push-back-v3": "drag the block back to the goal",
    "push-v3": "push the puck to the goal",
    "push-wall-v3": "push the puck around the wall to the goal",
    "reach-v3": "move the hand to the goal",
    "reach-wall-v3": "move the hand over the wall to the goal",
    "shelf-place-v3": "put the block on the shelf",
    "soccer-v3": "push the ball into the soccer goal",
    "stick-pull-v3": "pull the thermos to the goal with the stick",
    "stick-push-v3": "push the thermos to the goal with the stick",
    "sweep-into-v3": "sweep the cube into the hole",
    "sweep-v3": "sweep the cube off the table",
    "window-close-v3": "slide the window shut",
    "window-open-v3": "slide the window open",
}
TASK_OF_INSTRUCTION: dict[str, str] = {sentence: task for task, sentence in INSTRUCTIONS.items()}

CONTROL_HZ = 80.0  # five physics steps of 2.5 ms an action; the world checks it against the simulator
ACTION_SPEC = ActionSpec(
    names=("x", "y", "z", "gripper"),
    units=("cm per step", "cm per step", "cm per step", "effort"),
    low=(-1.0,) * 4,
    high=(1.0,) * 4,
    control_hz=CONTROL_HZ,
    meanings=(
        "moves the hand's target to the right, seen from behind the robot",
        "moves the hand's target away from the robot",
        "moves the hand's target up",
        "-1 opens the gripper, +1 closes it, 0 lets go of both motors",
    ),
)


def _seen(prefix: str) -> tuple[str, ...]:
    objects = [f"{prefix}object{n}_{part}" for n in (1, 2) for part in ("x", "y", "z", "q0", "q1", "q2", "q3")]
    return (*(f"{prefix}{name}" for name in ("hand_x", "hand_y", "hand_z", "gripper_opening")), *objects)


# Metres in the world's frame (x right, y away from the robot, z up, the table's top at z = 0); the opening runs from 0
# (shut) to 1 (10 cm apart); an object that a task lacks is zeros. Quaternions come in the task's own order: Meta-World
# takes most from MuJoCo (w first) and some from SciPy (w last).
STATE_NAMES: tuple[str, ...] = (*_seen(""), *_seen("previous_"), "goal_x", "goal_y", "goal_z")


def check_task(name: str) -> str:
    """``name`` if it is a task; `ConfigError` with the closest one otherwise."""
    if name not in INSTRUCTIONS:
        close = difflib.get_close_matches(name, INSTRUCTIONS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(
            f"Meta-World has no task {name!r}{hint}; the {len(INSTRUCTIONS)} are {', '.join(INSTRUCTIONS)}"
        )
    return name


SHOWN = 200  # characters of an instruction in a message: over a network it may be of any length


def task_of(instruction: str) -> str:
    """The task that an instruction of this world names; `InstructionError` with the closest for any other text."""
    if instruction not in TASK_OF_INSTRUCTION:
        close = difflib.get_close_matches(instruction[:SHOWN], TASK_OF_INSTRUCTION, 1, 0.0)
        given = instruction if len(instruction) <= SHOWN else f"{instruction[:SHOWN]}..."
        raise InstructionError(
            f"no Meta-World task is instructed by {given!r}; the sentence must be one of the world's own, "
            f"the closest is {close[0]!r} (INSTRUCTIONS in vla/worlds/metaworld_tasks.py)"
        )
    return TASK_OF_INSTRUCTION[instruction]
