"""The keyring of the user's system, through the library `keyring`, which is loaded where a secret is in it."""

from __future__ import annotations

from reflexarc.errors import ConfigError

SERVICE = "reflexarc"
_ELSE = "or give it as env:NAME or file:PATH"


def password(what: str, entry: str) -> str:
    """What the keyring holds for the service `reflexarc` under the name `entry`.

    what: it is for, in errors. Raises ConfigError where the library is missing, or the keyring is missing,
    locked or without such an entry.
    """
    try:
        import keyring
        from keyring.errors import KeyringError, KeyringLocked, NoKeyringError
    except ImportError as error:
        raise ConfigError(
            f"{what} is in the keyring, and what reads one is not installed: "
            f"pip install 'reflexarc[keyring]', {_ELSE}"
        ) from error
    try:
        value = keyring.get_password(SERVICE, entry)
    except NoKeyringError as error:
        raise ConfigError(
            f"{what} is in the keyring, and this system offers none here: log in to a desktop, choose "
            f"a backend (`keyring diagnose` says where), {_ELSE}"
        ) from error
    except KeyringLocked as error:
        raise ConfigError(f"{what} is in the keyring, which is locked: unlock it, {_ELSE}") from error
    except (KeyringError, OSError, RuntimeError) as error:
        raise ConfigError(f"{what} can't be had from the keyring: {error or type(error).__name__}") from error
    if value is None:
        raise ConfigError(
            f"{what}: the keyring has no entry {entry!r} of the service {SERVICE}; "
            f"`keyring set {SERVICE} {entry}` makes it"
        )
    return value
