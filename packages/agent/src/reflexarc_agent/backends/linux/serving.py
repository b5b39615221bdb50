"""The backends of a Linux desktop: accessibility, screen, input, applications, clipboard."""

from __future__ import annotations

from typing import List, Mapping

from reflexarc_agent.backend import Backend
from reflexarc_agent.backends.linux.desktop import Desktop
from reflexarc_agent.backends.linux.features.accessibility import AccessibilityFeature
from reflexarc_agent.backends.linux.features.apps import AppsFeature
from reflexarc_agent.backends.linux.features.clipboard import ClipboardFeature
from reflexarc_agent.backends.linux.features.input import InputFeature
from reflexarc_agent.backends.linux.features.screen import ScreenFeature


def backends(environ: Mapping[str, str]) -> List[Backend]:
    """The backends of this session, which may still be to come: their readiness tells."""
    desktop = Desktop(environ)
    return [
        *(AccessibilityFeature(desktop), ScreenFeature(desktop), InputFeature(desktop)),
        *(AppsFeature(desktop, environ), ClipboardFeature(desktop)),
    ]
