"""What actions and their arguments do, in a sentence each, for editors and `playbook show`."""

from __future__ import annotations

from collections.abc import Mapping

from reflexarc.machine.policy import is_destructive
from reflexarc.playbook.actions import Action, Argument

_ACTIONS: Mapping[str, str] = {
    "press_key": "Press a key.",
    "hotkey": "Press keys together, such as ctrl+alt+f2.",
    "press_until": "Press a key until a condition holds, looking after each press: for menus.",
    "type_text": "Type a text; what a console echoes is read back and put right.",
    "power_on": "Switch the machine on.",
    "shutdown": "Ask the operating system to shut down.",
    "hard_off": "Cut the power.",
    "reset": "Reset the machine.",
    "hard_cycle": "Cut the power and switch on again.",
    "screenshot": "Keep what the screen shows in the run's folder.",
    "wait": "Do nothing for a while.",
    "note": "Write a text into the journal.",
    "fail": "End the run as failed.",
    "assert": "End the run as failed unless a condition holds.",
}
_ARGUMENTS: Mapping[str, str] = {
    "key": "The name of a key, in any letter case, such as Enter or page_down.",
    "chord": "Keys joined by +, such as ctrl+alt+f2.",
    "times": "How often it is pressed.",
    "until": "The condition until which it is pressed.",
    "max": "How often it is pressed at most.",
    "text": "The text; {{ name }} is looked up.",
    "enter": "Whether Enter is pressed after it.",
    "secret": "Whether the text is kept out of everything that is written.",
    "timeout": "Seconds that it may take.",
    "seconds": "How many seconds.",
    "message": "Why, in words; {{ name }} is looked up.",
    "that": "The condition that must hold.",
}


def of_action(action: Action) -> str:
    """What the action does, which operation that is and what it needs."""
    facts = []
    if action.operation is not None:
        destructive = ", destructive" if is_destructive(action.operation) else ""
        facts.append(f"the operation {action.operation}{destructive}")
    if action.capability is not None:
        facts.append(f"needs the capability {action.capability}")
    own = _ACTIONS.get(action.name, f"{action.name.replace('_', ' ').capitalize()}.")
    return f"{own} ({'; '.join(facts)})" if facts else own


def of_argument(name: str, argument: Argument) -> str:
    """What the argument says, and what holds where it is left out."""
    own = _ARGUMENTS.get(name, f"{name.replace('_', ' ').capitalize()}.")
    if argument.required:
        return f"{own} Required."
    return own if argument.default in (None, "") else f"{own} Default: {str(argument.default).lower()}."
