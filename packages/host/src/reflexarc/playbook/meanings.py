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
    "click": "Click where the arguments say.",
    "double_click": "Click twice where the arguments say.",
    "move": "Move the pointer.",
    "drag": "Press a button, move the pointer, let go.",
    "scroll": "Turn the wheel by lines, to the right and down where positive.",
    "ax_press": "Press an element of the guest's accessibility tree.",
    "ax_action": "Perform one of an element's actions, such as AXPress or AXShowMenu.",
    "ax_set_value": "Set the value of an element, such as the text of a field.",
    "ax_focus": "Give an element the focus.",
    "launch_app": "Start an application in the guest.",
    "exec": "Run a command in the guest and check its exit status.",
    "run_serial": "Run a line on the shell at the serial console and check its exit status.",
    "upload": "Copy a file of the host into the guest.",
    "download": "Copy a file of the guest to the host.",
    "mount_iso": "Put an image into the machine's drive.",
    "msd_disconnect": "Take the image out of the machine's drive.",
    "set_boot_device": "Set what the machine starts from.",
    "snapshot": "Save the machine's state.",
    "rollback": "Go back to a saved state.",
    "freeze": "Stop the virtual processors.",
    "unfreeze": "Let the virtual processors go on.",
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
    "x": "Pixels from the left, or a share of the width from 0.0 to 1.0.",
    "y": "Pixels from the top, or a share of the height from 0.0 to 1.0.",
    "to_x": "Where it is dragged to, as x.",
    "to_y": "Where it is dragged to, as y.",
    "to_text": "A regular expression for the text to drag to.",
    "dx": "Lines to the right.",
    "dy": "Lines down.",
    "needle": "A PNG picture in the playbook's folder that shows on the screen, once.",
    "image": "The picture itself, as PNG in base64, where there is no file.",
    "to_needle": "Where it is dragged to: a PNG picture, as needle.",
    "to_image": "That picture itself, as image.",
    "button": "Which button.",
    "command": "A line for the shell; no value from a screen or guest may be in it.",
    "argv": "The program and its arguments; {{ name }} is looked up.",
    "cwd": "The folder it runs in.",
    "env": "Variables of its environment; {{ name }} is looked up.",
    "ok_codes": "Exit statuses that are no failure.",
    "source": "Where it is read from.",
    "target": "Where it is written to.",
    "executable": "Whether it may be run.",
    "cdrom": "Whether it is offered as a CD, not as a disk.",
    "device": "What it starts from.",
    "once": "For the next start only.",
    "name": "Its name.",
    "that": "The condition that must hold.",
    "element": "An element of the guest's accessibility tree, which shows once; its middle is aimed at.",
    "to_element": "Where it is dragged to: an element, as element.",
    "role": "The element's role, by the common name (AXButton) or the guest's own (push button).",
    "enabled": "Whether the element can be used; either, where left out.",
    "focused": "Whether the element has the focus; either, where left out.",
    "showing": "Whether only what is on the screen counts; true where left out.",
    "ref": "The element that an earlier step registered, as {{ name.ref }}, in place of what tells it.",
    "action": "Which of its actions.",
    "value": "Its value.",
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
    if argument.type == "pattern" and name == "text":
        own = "A regular expression for the text on the screen."
    if argument.type == "element_text" and name in ("name", "value", "text"):
        own = {"name": "The element's whole name.", "value": "The element's whole value."}.get(
            name, "A text within the element's name or its value."
        )
    if argument.required:
        return f"{own} Required."
    if argument.default in (None, ""):
        return own
    default = argument.default
    spelled = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default).lower()
    return f"{own} Default: {spelled}."
