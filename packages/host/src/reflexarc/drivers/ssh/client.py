"""The system's OpenSSH: connecting once and sharing the connection, and its failures as errors of ours."""

from __future__ import annotations

import asyncio
import re
import secrets
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path

from reflexarc.drivers.ssh import leases
from reflexarc.drivers.ssh.config import SshConfig
from reflexarc.drivers.ssh.process import Refused, Running
from reflexarc.drivers.ssh.script import GO, LAUNCH
from reflexarc.errors import ConfigError, ConnectError, ConnectionLostError, OperationRejectedError

# A connection is kept so long after its last use; another program that comes meanwhile shares it.
KEPT = 60
CONNECT_TIMEOUT = 10
# Silence after which a connection counts as lost.
ALIVE_INTERVAL, ALIVE_COUNT = 5, 3
READY_TIMEOUT = 20.0
MESSAGE_TIMEOUT = 2.0
MAX_MESSAGE = 300
_OWN_FAILURE = 255

# What ssh says, and what to do about it.
_ADVICE = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S+ has changed",
     "its host key is another one than before; find out why, then remove the old one with `ssh-keygen -R`"),
    (r"Host key verification failed|No \S+ host key is known",
     "its host key is not known: check it and accept it once with `ssh`, or name a file in `known_hosts`"),
    (r"Permission denied|Too many authentication failures|no such identity",
     "it takes none of the keys: name one in `identity_file` or add it to the agent; no password is ever asked for"),
    (r"Could not resolve hostname", "correct `host` in its entry"),
    (r"Connection refused", "is its SSH server running, and on that port?"),
    (r"timed out|No route to host|unreachable", "is it on, and is it in reach of this host?"),
    (r"Bad owner or permissions|bad configuration option|no argument after keyword|Bad configuration",
     "correct the OpenSSH configuration of this host"),
)  # fmt: skip


class SshClient:
    """Runs scripts in a guest; the connection is OpenSSH's own master, shared by all that use the same settings.

    folder: where the master's socket is, for this user alone. Nothing is connected before it is needed.
    """

    def __init__(self, config: SshConfig, *, machine: str, folder: Path) -> None:
        self.config = config
        self.machine = machine
        self._folder = folder
        self._control = f"{sha256(repr(config).encode()).hexdigest()[:12]}.ctl"

    @asynccontextmanager
    async def running(self, script: Callable[[str], str], operation: str) -> AsyncIterator[Running]:
        """Start a script, given its token, and let it run once it is ready; it is cut off when the context ends.

        Raises ConnectError where the guest isn't reached, and OperationRejectedError where the script refuses:
        then nothing has happened.
        """
        running = await self._ready(script, operation)
        try:
            running.tell(GO)
            yield running
        finally:
            await running.end()

    def lost(self, what: str, operation: str) -> ConnectionLostError:
        """The error for a script whose end was not told."""
        return ConnectionLostError(
            f"the SSH connection to {self.config.name} broke while {what}; look what became of it",
            machine=self.machine,
            operation=operation,
        )

    def rejected(self, problem: str, operation: str, code: str, detail: str = "") -> OperationRejectedError:
        """The error for what the guest refuses."""
        return OperationRejectedError(
            problem, machine=self.machine, operation=operation, code=code, detail=detail
        )

    async def _ready(self, script: Callable[[str], str], operation: str) -> Running:
        """A script that waits to be told to run; a second time over a new connection where the old one was dead."""
        shared = self._is_shared()
        try:
            return await self._begin(script, operation)
        except ConnectError:
            if not shared:
                raise
        await self._drop_master()
        return await self._begin(script, operation)

    async def _begin(self, script: Callable[[str], str], operation: str) -> Running:
        token = secrets.token_hex(16)
        running = await self._start(script(token), token, operation)
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                refused = await running.ready()
        except (EOFError, ValueError) as error:
            raise await self._failure(running, operation) from error
        except TimeoutError as error:
            await running.end()
            raise self._unreached(f"it did not answer within {READY_TIMEOUT:.0f} s", operation) from error
        except BaseException:
            await running.end()
            raise
        if refused is not None:
            await running.end()
            raise self._refusal(refused, operation)
        return running

    async def _start(self, script: str, token: str, operation: str) -> Running:
        arguments = [*self.arguments(self._address(operation)), LAUNCH]
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            return await Running.start(arguments, script, token, folder=self._folder)
        except FileNotFoundError as error:
            raise ConfigError("there is no program ssh on this host; install OpenSSH's client") from error
        except OSError as error:
            raise self._unreached(f"ssh can't be started: {error.strerror}", operation) from error

    def arguments(self, host: str) -> list[str]:
        """The command line of `ssh`, up to the host.

        The user's and the system's configuration count for all that isn't named here. A prompt would wait for ever:
        there is none. The socket's path is relative, for a long one would not fit into its address.
        """
        config = self.config
        settings = {
            "BatchMode": "yes",
            "ControlMaster": "auto",
            "ControlPath": self._control,
            "ControlPersist": str(KEPT),
            "ConnectTimeout": str(CONNECT_TIMEOUT),
            "ServerAliveInterval": str(ALIVE_INTERVAL),
            "ServerAliveCountMax": str(ALIVE_COUNT),
            "LogLevel": "ERROR",
            "RemoteCommand": "none",
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "ClearAllForwardings": "yes",
            "PermitLocalCommand": "no",
        }
        if config.known_hosts is not None:
            settings["UserKnownHostsFile"] = f'"{config.known_hosts}"'
        if config.lease:
            settings["HostKeyAlias"] = config.lease
        if config.identity_file is not None:
            settings["IdentitiesOnly"] = "yes"
        return [
            "ssh",
            "-T",
            *(("-F", str(config.config)) if config.config is not None else ()),
            *(part for name, value in settings.items() for part in ("-o", f"{name}={value}")),
            *(("-i", str(config.identity_file)) if config.identity_file is not None else ()),
            *(("-p", str(config.port)) if config.port is not None else ()),
            *(("-l", config.user) if config.user else ()),
            *(("-J", config.jump) if config.jump else ()),
            "--",
            host,
        ]

    def _address(self, operation: str) -> str:
        if self.config.host:
            return self.config.host
        try:
            with leases.LEASES.open(encoding="utf-8", errors="replace") as file:
                address = leases.leased_address(file.read(leases.MAX_SIZE), self.config.lease)
        except OSError as error:
            raise self._unreached(f"{leases.LEASES} can't be read: {error.strerror}", operation) from error
        if address is None:
            raise self._unreached(
                f"{leases.LEASES} has no lease for {self.config.lease}; is it on?", operation
            )
        return address

    def _is_shared(self) -> bool:
        return (self._folder / self._control).exists()

    async def _drop_master(self) -> None:
        """Have the master take no more: what comes next connects anew, what others do goes on."""
        arguments = [*self.arguments("machine")[:-2], "-O", "stop", "--", "machine"]
        with suppress(OSError, TimeoutError):
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=self._folder,
            )
            try:
                async with asyncio.timeout(MESSAGE_TIMEOUT):
                    await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        (self._folder / self._control).unlink(missing_ok=True)

    async def _failure(self, running: Running, operation: str) -> ConnectError | OperationRejectedError:
        """Why ssh ended before the script was ready."""
        try:
            code, message = await running.failure()
        finally:
            await running.end()
        said = one_line(message)
        if code == _OWN_FAILURE:
            return self._unreached(said or "ssh gave no reason", operation, _advice(message))
        return self.rejected(
            f"its account runs no POSIX shell over SSH (exit code {code}): {said or 'it gave no reason'}; give the "
            "account one, or name another in `user`",
            operation,
            "no shell",
            said,
        )

    def _unreached(self, problem: str, operation: str, advice: str = "") -> ConnectError:
        return ConnectError(
            f"can't reach {self.config.name} over SSH: {problem}{f'; {advice}' if advice else ''}",
            machine=self.machine,
            operation=operation,
        )

    def _refusal(self, refused: Refused, operation: str) -> OperationRejectedError:
        return self.rejected(one_line(refused.detail), operation, refused.code[:40])


def one_line(text: str) -> str:
    """The end of a text from a guest or from ssh, on one line and without anything that a terminal would obey."""
    clean = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in text)
    words = " ".join(clean.split())
    return words if len(words) <= MAX_MESSAGE else f"... {words[-MAX_MESSAGE:]}"


def _advice(message: str) -> str:
    return next((advice for pattern, advice in _ADVICE if re.search(pattern, message, re.IGNORECASE)), "")
