"""The X libraries, loaded when first needed, with the signatures of what is used of them.

Source: libX11, libXext (MIT-SHM), libXtst (XTEST), libXdamage manuals.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char, c_char_p, c_int, c_long, c_short, c_uint, c_ulong, c_void_p
from functools import lru_cache
from typing import Any

from reflexarc_agent.backends.linux.x11.errors import X11Error

PACKAGES = {
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
    "libXtst.so.6": "libxtst6",
    "libXdamage.so.1": "libxdamage1",
    "libXrandr.so.2": "libxrandr2",
}


class Image(Structure):
    """The public part of XImage."""

    _fields_ = (
        *((name, c_int) for name in ("width", "height", "xoffset", "format")),
        ("data", c_void_p),
        *(
            (name, c_int)
            for name in ("byte_order", "unit", "bit_order", "pad", "depth", "stride", "pixel_bits")
        ),
        *((name, c_ulong) for name in ("red", "green", "blue")),
        ("shared", c_void_p),
        ("functions", c_void_p * 6),
    )


class Segment(Structure):
    """XShmSegmentInfo."""

    _fields_ = (("segment", c_ulong), ("id", c_int), ("address", c_void_p), ("read_only", c_int))


class Attributes(Structure):
    """XWindowAttributes."""

    _fields_ = (
        *((name, c_int) for name in ("x", "y", "width", "height", "border", "depth")),
        ("visual", c_void_p),
        ("root", c_ulong),
        *((name, c_int) for name in ("kind", "bit_gravity", "window_gravity", "backing_store")),
        *((name, c_ulong) for name in ("planes", "pixel")),
        ("save_under", c_int),
        ("colormap", c_ulong),
        *((name, c_int) for name in ("installed", "map_state")),
        *((name, c_long) for name in ("all_masks", "own_mask", "no_propagate")),
        ("override_redirect", c_int),
        ("screen", c_void_p),
    )


class ErrorEvent(Structure):
    """XErrorEvent."""

    _fields_ = (
        ("type", c_int),
        ("display", c_void_p),
        ("resource", c_ulong),
        ("serial", c_ulong),
        *((name, ctypes.c_ubyte) for name in ("error", "request", "minor")),
    )


class ClientMessage(Structure):
    """XClientMessageEvent with five longs."""

    _fields_ = (
        ("type", c_int),
        ("serial", c_ulong),
        ("send_event", c_int),
        ("display", c_void_p),
        ("window", c_ulong),
        ("message", c_ulong),
        ("format", c_int),
        ("data", c_long * 5),
    )


class DamageNotify(Structure):
    """XDamageNotifyEvent up to the area."""

    _fields_ = (
        ("type", c_int),
        ("serial", c_ulong),
        ("send_event", c_int),
        ("display", c_void_p),
        ("drawable", c_ulong),
        ("damage", c_ulong),
        ("level", c_int),
        ("more", c_int),
        ("timestamp", c_ulong),
        *((name, c_short) for name in ("x", "y")),
        *((name, ctypes.c_ushort) for name in ("width", "height")),
    )


class SelectionEvent(Structure):
    """XSelectionEvent; XSelectionClearEvent begins alike."""

    _fields_ = (
        ("type", c_int),
        ("serial", c_ulong),
        ("send_event", c_int),
        ("display", c_void_p),
        *((name, c_ulong) for name in ("requestor", "selection", "target", "property", "time")),
    )


class SelectionRequest(Structure):
    """XSelectionRequestEvent."""

    _fields_ = (
        ("type", c_int),
        ("serial", c_ulong),
        ("send_event", c_int),
        ("display", c_void_p),
        *((name, c_ulong) for name in ("owner", "requestor", "selection", "target", "property", "time")),
    )


class PropertyEvent(Structure):
    """XPropertyEvent; `state` is 0 for a new value, 1 where it was deleted."""

    _fields_ = (
        ("type", c_int),
        ("serial", c_ulong),
        ("send_event", c_int),
        ("display", c_void_p),
        *((name, c_ulong) for name in ("window", "atom", "time")),
        ("state", c_int),
    )


class MonitorInfo(Structure):
    """XRRMonitorInfo."""

    _fields_ = (
        ("name", c_ulong),
        *((name, c_int) for name in ("primary", "automatic", "count")),
        *((name, c_int) for name in ("x", "y", "width", "height", "width_mm", "height_mm")),
        ("outputs", c_void_p),
    )


class Event(ctypes.Union):
    """XEvent: 24 longs, read as one of its kinds."""

    _fields_ = (
        ("type", c_int),
        ("client", ClientMessage),
        ("damage", DamageNotify),
        ("selection", SelectionEvent),
        ("request", SelectionRequest),
        ("property", PropertyEvent),
        ("words", c_long * 24),
    )


D = c_void_p
_SIGNATURES: dict[str, dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "libX11.so.6": {
        "XInitThreads": (c_int, ()),
        "XOpenDisplay": (D, (c_char_p,)),
        "XCloseDisplay": (c_int, (D,)),
        "XConnectionNumber": (c_int, (D,)),
        "XDefaultScreen": (c_int, (D,)),
        "XDefaultRootWindow": (c_ulong, (D,)),
        "XDefaultVisual": (c_void_p, (D, c_int)),
        "XDefaultDepth": (c_int, (D, c_int)),
        "XSync": (c_int, (D, c_int)),
        "XFlush": (c_int, (D,)),
        "XPending": (c_int, (D,)),
        "XNextEvent": (c_int, (D, POINTER(Event))),
        "XSendEvent": (c_int, (D, c_ulong, c_int, c_long, POINTER(Event))),
        "XFree": (c_int, (c_void_p,)),
        "XInternAtom": (c_ulong, (D, c_char_p, c_int)),
        "XGetAtomName": (c_void_p, (D, c_ulong)),
        "XSelectInput": (c_int, (D, c_ulong, c_long)),
        "XCreateSimpleWindow": (
            c_ulong,
            (D, c_ulong, c_int, c_int, c_uint, c_uint, c_uint, c_ulong, c_ulong),
        ),
        "XSetSelectionOwner": (c_int, (D, c_ulong, c_ulong, c_ulong)),
        "XGetSelectionOwner": (c_ulong, (D, c_ulong)),
        "XConvertSelection": (c_int, (D, c_ulong, c_ulong, c_ulong, c_ulong, c_ulong)),
        "XChangeProperty": (c_int, (D, c_ulong, c_ulong, c_ulong, c_int, c_int, c_char_p, c_int)),
        "XDeleteProperty": (c_int, (D, c_ulong, c_ulong)),
        "XGetWindowProperty": (
            c_int,
            (
                D,
                c_ulong,
                c_ulong,
                c_long,
                c_long,
                c_int,
                c_ulong,
                POINTER(c_ulong),
                POINTER(c_int),
                POINTER(c_ulong),
                POINTER(c_ulong),
                POINTER(c_void_p),
            ),
        ),
        "XGetWindowAttributes": (c_int, (D, c_ulong, POINTER(Attributes))),
        "XQueryTree": (
            c_int,
            (
                D,
                c_ulong,
                POINTER(c_ulong),
                POINTER(c_ulong),
                POINTER(POINTER(c_ulong)),
                POINTER(c_uint),
            ),
        ),
        "XTranslateCoordinates": (
            c_int,
            (D, c_ulong, c_ulong, c_int, c_int, POINTER(c_int), POINTER(c_int), POINTER(c_ulong)),
        ),
        "XQueryPointer": (
            c_int,
            (
                D,
                c_ulong,
                POINTER(c_ulong),
                POINTER(c_ulong),
                POINTER(c_int),
                POINTER(c_int),
                POINTER(c_int),
                POINTER(c_int),
                POINTER(c_uint),
            ),
        ),
        "XDisplayKeycodes": (c_int, (D, POINTER(c_int), POINTER(c_int))),
        "XGetKeyboardMapping": (POINTER(c_ulong), (D, ctypes.c_ubyte, c_int, POINTER(c_int))),
        "XChangeKeyboardMapping": (c_int, (D, c_int, c_int, POINTER(c_ulong), c_int)),
        "XkbLockGroup": (c_int, (D, c_uint, c_uint)),
        "XStringToKeysym": (c_ulong, (c_char_p,)),
        "XGetErrorText": (c_int, (D, c_int, POINTER(c_char), c_int)),
    },
    "libXext.so.6": {
        "XShmQueryExtension": (c_int, (D,)),
        "XShmCreateImage": (
            POINTER(Image),
            (D, c_void_p, c_uint, c_int, c_void_p, POINTER(Segment), c_uint, c_uint),
        ),
        "XShmAttach": (c_int, (D, POINTER(Segment))),
        "XShmDetach": (c_int, (D, POINTER(Segment))),
        "XShmGetImage": (c_int, (D, c_ulong, POINTER(Image), c_int, c_int, c_ulong)),
    },
    "libXtst.so.6": {
        "XTestQueryExtension": (c_int, (D,) + (POINTER(c_int),) * 4),
        "XTestFakeKeyEvent": (c_int, (D, c_uint, c_int, c_ulong)),
        "XTestFakeButtonEvent": (c_int, (D, c_uint, c_int, c_ulong)),
        "XTestFakeMotionEvent": (c_int, (D, c_int, c_int, c_int, c_ulong)),
    },
    "libXrandr.so.2": {
        "XRRQueryExtension": (c_int, (D, POINTER(c_int), POINTER(c_int))),
        "XRRSelectInput": (None, (D, c_ulong, c_int)),
        "XRRGetMonitors": (POINTER(MonitorInfo), (D, c_ulong, c_int, POINTER(c_int))),
        "XRRFreeMonitors": (None, (POINTER(MonitorInfo),)),
    },
    "libXdamage.so.1": {
        "XDamageQueryExtension": (c_int, (D, POINTER(c_int), POINTER(c_int))),
        "XDamageCreate": (c_ulong, (D, c_ulong, c_int)),
        "XDamageDestroy": (None, (D, c_ulong)),
        "XDamageSubtract": (None, (D, c_ulong, c_ulong, c_ulong)),
    },
}


@lru_cache(maxsize=None)
def library(name: str) -> Any:
    """A library with its functions declared; raises X11Error where it isn't installed."""
    try:
        loaded = ctypes.CDLL(name)
    except OSError as error:
        raise X11Error(f"{name} can't be loaded ({error}): install {PACKAGES[name]}") from error
    for function, (result, arguments) in _SIGNATURES[name].items():
        getattr(loaded, function).restype = result
        getattr(loaded, function).argtypes = arguments
    return loaded


def xlib() -> Any:
    return library("libX11.so.6")
