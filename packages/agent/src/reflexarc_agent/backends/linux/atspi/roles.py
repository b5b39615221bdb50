"""Roles: their numbers' names, and the AX names that one playbook uses on every system.

Source: AT-SPI2, `AtspiRole`; AppKit, `NSAccessibility.Role`.
"""

from __future__ import annotations

ROLES = [
    "invalid",
    "accelerator-label",
    "alert",
    "animation",
    "arrow",
    "calendar",
    "canvas",
    "check-box",
    "check-menu-item",
    "color-chooser",
    "column-header",
    "combo-box",
    "date-editor",
    "desktop-icon",
    "desktop-frame",
    "dial",
    "dialog",
    "directory-pane",
    "drawing-area",
    "file-chooser",
    "filler",
    "focus-traversable",
    "font-chooser",
    "frame",
    "glass-pane",
    "html-container",
    "icon",
    "image",
    "internal-frame",
    "label",
    "layered-pane",
    "list",
    "list-item",
    "menu",
    "menu-bar",
    "menu-item",
    "option-pane",
    "page-tab",
    "page-tab-list",
    "panel",
    "password-text",
    "popup-menu",
    "progress-bar",
    "push-button",
    "radio-button",
    "radio-menu-item",
    "root-pane",
    "row-header",
    "scroll-bar",
    "scroll-pane",
    "separator",
    "slider",
    "spin-button",
    "split-pane",
    "status-bar",
    "table",
    "table-cell",
    "table-column-header",
    "table-row-header",
    "tearoff-menu-item",
    "terminal",
    "text",
    "toggle-button",
    "tool-bar",
    "tool-tip",
    "tree",
    "tree-table",
    "unknown",
    "viewport",
    "window",
    "extended",
    "header",
    "footer",
    "paragraph",
    "ruler",
    "application",
    "autocomplete",
    "editbar",
    "embedded",
    "entry",
    "chart",
    "caption",
    "document-frame",
    "heading",
    "page",
    "section",
    "redundant-object",
    "form",
    "link",
    "input-method-window",
    "table-row",
    "tree-item",
    "document-spreadsheet",
    "document-presentation",
    "document-text",
    "document-web",
    "document-email",
    "comment",
    "list-box",
    "grouping",
    "image-map",
    "notification",
    "info-bar",
    "level-bar",
    "title-bar",
    "block-quote",
    "audio",
    "video",
    "definition",
    "article",
    "landmark",
    "log",
    "marquee",
    "math",
    "rating",
    "timer",
    "static",
    "math-fraction",
    "math-root",
    "subscript",
    "superscript",
    "description-list",
    "description-term",
    "description-value",
    "footnote",
    "content-deletion",
    "content-insertion",
    "mark",
    "suggestion",
    "push-button-menu",
    "switch",
]
"""The name of each role, by its number."""

AX_ROLES = {
    "application": ("AXApplication", ""),
    **dict.fromkeys(("frame", "window"), ("AXWindow", "AXStandardWindow")),
    **dict.fromkeys(
        ("dialog", "alert", "file-chooser", "color-chooser", "font-chooser"), ("AXWindow", "AXDialog")
    ),
    **dict.fromkeys(("push-button", "push-button-menu"), ("AXButton", "")),
    "toggle-button": ("AXCheckBox", "AXToggle"),
    "switch": ("AXCheckBox", "AXSwitch"),
    "check-box": ("AXCheckBox", ""),
    "radio-button": ("AXRadioButton", ""),
    "page-tab": ("AXRadioButton", "AXTabButton"),
    "page-tab-list": ("AXTabGroup", ""),
    **dict.fromkeys(("text", "entry"), ("AXTextField", "")),
    "password-text": ("AXTextField", "AXSecureTextField"),
    **dict.fromkeys(("terminal", "document-text"), ("AXTextArea", "")),
    **dict.fromkeys(("label", "static", "caption"), ("AXStaticText", "")),
    "heading": ("AXHeading", ""),
    "link": ("AXLink", ""),
    "combo-box": ("AXComboBox", ""),
    **dict.fromkeys(("menu", "popup-menu"), ("AXMenu", "")),
    "menu-bar": ("AXMenuBar", ""),
    **dict.fromkeys(
        ("menu-item", "check-menu-item", "radio-menu-item", "tearoff-menu-item"), ("AXMenuItem", "")
    ),
    "slider": ("AXSlider", ""),
    "spin-button": ("AXIncrementor", ""),
    "progress-bar": ("AXProgressIndicator", ""),
    "level-bar": ("AXLevelIndicator", ""),
    "scroll-bar": ("AXScrollBar", ""),
    **dict.fromkeys(("scroll-pane", "viewport"), ("AXScrollArea", "")),
    "split-pane": ("AXSplitGroup", ""),
    "table": ("AXTable", ""),
    **dict.fromkeys(("tree", "tree-table"), ("AXOutline", "")),
    **dict.fromkeys(("table-row", "tree-item"), ("AXRow", "")),
    "table-cell": ("AXCell", ""),
    **dict.fromkeys(("list", "list-box"), ("AXList", "")),
    **dict.fromkeys(("image", "icon"), ("AXImage", "")),
    "document-web": ("AXWebArea", ""),
    "tool-bar": ("AXToolbar", ""),
    "tool-tip": ("AXHelpTag", ""),
    **dict.fromkeys(
        ("panel", "filler", "section", "grouping", "form", "status-bar", "landmark"), ("AXGroup", "")
    ),
}
"""AX role and subrole by AT-SPI role; a role that isn't here keeps its own name."""

TOGGLES = frozenset(
    ("check-box", "radio-button", "toggle-button", "switch", "check-menu-item", "radio-menu-item")
)
TEXTS = frozenset(("text", "entry", "terminal", "editbar", "document-text"))
NUMBERS = frozenset(("slider", "spin-button", "progress-bar", "scroll-bar", "level-bar", "dial", "rating"))
WINDOWS = frozenset(role for role, (ax, _) in AX_ROLES.items() if ax == "AXWindow")
INTERACTIVE = TOGGLES | frozenset(
    [
        "push-button",
        "push-button-menu",
        "page-tab",
        "text",
        "entry",
        "password-text",
        "combo-box",
        "menu",
        "menu-item",
        "slider",
        "spin-button",
        "link",
        "list-item",
        "tree-item",
        "table-cell",
        "icon",
        "tearoff-menu-item",
        "terminal",
        "editbar",
    ]
)

AX_ACTIONS = {
    "AXPress": (
        "click",
        "press",
        "activate",
        "toggle",
        "jump",
        "clickancestor",
        "open",
        "select",
        "dodefault",
        "do default",
    ),
    "AXShowMenu": ("showcontextmenu", "show-menu", "showmenu", "menu", "popup"),
    "AXIncrement": ("increment", "increase"),
    "AXDecrement": ("decrement", "decrease"),
    "AXExpand": ("expand", "expand or contract"),
    "AXCollapse": ("collapse", "expand or contract"),
}
"""The toolkits' own names of each AX action, the most direct first."""


def role_name(number: int) -> str:
    """The name of a role by its number; one that isn't known yet is told by the number."""
    return ROLES[number] if 0 <= number < len(ROLES) else f"role-{number}"


def role_named(word: str) -> frozenset[str]:
    """The AT-SPI roles that a role's name means, native ("push-button", "push button", "button") or AX."""
    native = word.strip().lower().replace(" ", "-").replace("_", "-")
    found = {role for role, (ax, subrole) in AX_ROLES.items() if word in (ax, subrole)}
    found |= {role for role in ROLES if native in (role, outline_role(role))}
    return frozenset(found)


def outline_role(role: str) -> str:
    """The short word of an outline."""
    return _SHORT.get(role, role)


_SHORT = {
    "push-button": "button",
    "check-box": "checkbox",
    "radio-button": "radio",
    "page-tab": "tab",
    "page-tab-list": "tabs",
    "entry": "textbox",
    "text": "textbox",
    "password-text": "password",
    "label": "text",
    "static": "text",
    "table-cell": "cell",
    "table-row": "row",
    "frame": "window",
    "document-web": "document",
    "popup-menu": "menu",
    "combo-box": "combobox",
    "progress-bar": "progress",
}
