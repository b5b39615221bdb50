"""The interfaces that are spoken: of each its requests and its events, in the order of their numbers.

The letters are a message's arguments: i and u numbers, f a fixed-point number, s a string, o an object, n a new one (of
the interface that follows), a an array of bytes, h a file descriptor.
Source: wayland.xml; xdg-output, ext-image-copy-capture, ext-image-capture-source, ext-data-control; wlr-screencopy,
wlr-virtual-pointer, wlr-foreign-toplevel-management, wlr-data-control; virtual-keyboard.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple


class Signature(NamedTuple):
    """A message's name, its arguments, and the interface of the object that it makes."""

    name: str
    arguments: str = ""
    makes: str = ""


class Interface(NamedTuple):
    """What may be asked of an object, and what it tells."""

    requests: Tuple[Signature, ...]
    events: Tuple[Signature, ...]


def _messages(text: str) -> Tuple[Signature, ...]:
    return tuple(Signature(*message.split()) for message in text.split(",") if message.strip())


def _data_control(prefix: str) -> Dict[str, Tuple[str, str]]:
    return {
        f"{prefix}_manager_v1": (
            f"create_data_source n {prefix}_source_v1, get_data_device no {prefix}_device_v1, destroy",
            "",
        ),
        f"{prefix}_device_v1": (
            "set_selection o, destroy, set_primary_selection o",
            f"data_offer n {prefix}_offer_v1, selection o, finished, primary_selection o",
        ),
        f"{prefix}_source_v1": ("offer s, destroy", "send sh, cancelled"),
        f"{prefix}_offer_v1": ("receive sh, destroy", "offer s"),
    }


_DESCRIBED: Dict[str, Tuple[str, str]] = {
    "wl_display": ("sync n wl_callback, get_registry n wl_registry", "error ous, delete_id u"),
    "wl_callback": ("", "done u"),
    "wl_registry": ("bind usun", "global usu, global_remove u"),
    "wl_shm": ("create_pool nhi wl_shm_pool", "format u"),
    "wl_shm_pool": ("create_buffer niiiiu wl_buffer, destroy, resize i", ""),
    "wl_buffer": ("destroy", "release"),
    "wl_seat": (
        "get_pointer n wl_pointer, get_keyboard n wl_keyboard, get_touch n wl_touch, release",
        "capabilities u, name s",
    ),
    "wl_output": (
        "release",
        "geometry iiiiissi, mode uiii, done, scale i, name s, description s",
    ),
    "zxdg_output_manager_v1": ("destroy, get_xdg_output no zxdg_output_v1", ""),
    "zxdg_output_v1": ("destroy", "logical_position ii, logical_size ii, done, name s, description s"),
    "zwlr_screencopy_manager_v1": (
        (
            "capture_output nio zwlr_screencopy_frame_v1, "
            "capture_output_region nioiiii zwlr_screencopy_frame_v1, destroy"
        ),
        "",
    ),
    "zwlr_screencopy_frame_v1": (
        "copy o, destroy, copy_with_damage o",
        "buffer uuuu, flags u, ready uuu, failed, damage uuuu, linux_dmabuf uuu, buffer_done",
    ),
    "ext_output_image_capture_source_manager_v1": (
        "create_source no ext_image_capture_source_v1, destroy",
        "",
    ),
    "ext_image_capture_source_v1": ("destroy", ""),
    "ext_image_copy_capture_manager_v1": (
        (
            "create_session nou ext_image_copy_capture_session_v1, "
            "create_pointer_cursor_session noo ext_image_copy_capture_cursor_session_v1, destroy"
        ),
        "",
    ),
    "ext_image_copy_capture_session_v1": (
        "create_frame n ext_image_copy_capture_frame_v1, destroy",
        "buffer_size uu, shm_format u, dmabuf_device a, dmabuf_format ua, done, stopped",
    ),
    "ext_image_copy_capture_frame_v1": (
        "destroy, attach_buffer o, damage_buffer iiii, capture",
        "transform u, damage iiii, presentation_time uuu, ready, failed u",
    ),
    "zwlr_virtual_pointer_manager_v1": (
        (
            "create_virtual_pointer on zwlr_virtual_pointer_v1, destroy, "
            "create_virtual_pointer_with_output oon zwlr_virtual_pointer_v1"
        ),
        "",
    ),
    "zwlr_virtual_pointer_v1": (
        (
            "motion uff, motion_absolute uuuuu, button uuu, axis uuf, frame, axis_source u, axis_stop uu, "
            "axis_discrete uufi, destroy"
        ),
        "",
    ),
    "zwp_virtual_keyboard_manager_v1": ("create_virtual_keyboard on zwp_virtual_keyboard_v1", ""),
    "zwp_virtual_keyboard_v1": ("keymap uhu, key uuu, modifiers uuuu, destroy", ""),
    "zwlr_foreign_toplevel_manager_v1": ("stop", "toplevel n zwlr_foreign_toplevel_handle_v1, finished"),
    "zwlr_foreign_toplevel_handle_v1": (
        (
            "set_maximized, unset_maximized, set_minimized, unset_minimized, activate o, close, "
            "set_rectangle oiiii, destroy, set_fullscreen o, unset_fullscreen"
        ),
        "title s, app_id s, output_enter o, output_leave o, state a, done, closed, parent o",
    ),
    **_data_control("zwlr_data_control"),
    **_data_control("ext_data_control"),
}

INTERFACES = {
    name: Interface(_messages(requests), _messages(events)) for name, (requests, events) in _DESCRIBED.items()
}
