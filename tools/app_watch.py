"""Watches over a run in the app: its status file says how it is, its trace is read as it grows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import click

from daf.errors import Exit, UserError
from daf.tools.adb.app import kill_app, tell_service
from daf.tools.adb.link import ConnectionLost
from daf.tools.adb.transfer import REOPEN_S
from daf.tools.local_device import Outcome
from daf.tools.remote_watch import RemoteWatch, open_trace

_LOOK_S = 0.25
_SILENCE_S = 15.0  # the app's status changes every second
_MARK = "== trace =="
_CHUNK_BYTES = 4_000_000
_OVER = ("done", "stopped", "failed")


class AppWatch(RemoteWatch):
    """As of a runner, but the app goes on by itself when the connection breaks."""

    def run(self, threads: int | None, on_interrupt: Callable[[], None]) -> Outcome:
        self._status: dict[str, Any] = {}
        self._offset = 0
        with self._catch_interrupts(on_interrupt):
            with open_trace(self._request["trace"]) as trace, self._progress:
                tell_service(self._device, "RUN", request="/".join(self._files.request.split("/")[-3:]))
                self._poll(trace)
            self._files.running_pid = None
            self._bring_home()
        return Outcome(int(self._status["code"]), str(self._status.get("error") or ""), self._interrupts > 0)

    def _poll(self, trace: BinaryIO | None) -> None:
        changed_s, last = time.monotonic(), (None, None)
        while True:
            try:
                found = self._look(trace)
                self._pass_on_interrupts()
            except ConnectionLost as error:
                self._reopen(error)
                changed_s = time.monotonic()
                continue
            if self._status.get("state") in _OVER and not found:
                return
            now = (self._status.get("state"), self._status.get("beat"))
            if now != last:
                changed_s, last = time.monotonic(), now
            elif time.monotonic() - changed_s > _SILENCE_S:
                self._fail_silent()
            if not found:
                time.sleep(_LOOK_S)

    def _look(self, trace: BinaryIO | None) -> bool:
        """Reads the status, then what the trace has more than before; whether it had more."""
        files = self._files
        done = self._device.run_script(
            f"cat {files.run}/status.json 2>/dev/null; echo; echo '{_MARK}'; "
            f"tail -c +{self._offset + 1} {files.trace} 2>/dev/null | head -c {_CHUNK_BYTES}"
        )
        status, _, rows = done.output.partition(f"{_MARK}\n")
        try:
            self._status = json.loads(status)
            self._files.running_pid = None if self._status["state"] in _OVER else int(self._status["pid"])
        except (ValueError, KeyError, TypeError):
            pass  # it is not there yet
        complete = rows[: rows.rfind("\n") + 1].encode()  # a line that is being written is read next time
        self._offset += len(complete)
        for line in complete.splitlines():
            self._take_line(line, trace)
        return bool(complete)

    def _pass_on_interrupts(self) -> None:
        if self._sent_stops < min(self._interrupts, 2):
            self._sent_stops += 1
            if self._sent_stops == 1:
                tell_service(self._device, "STOP", run=self._files.run.rpartition("/")[2])
            else:
                kill_app(self._device)
                self._files.running_pid = None
                self._bring_home()
                raise UserError(f"killed at step {self._last_step}; {self._kept()}", Exit.INTERRUPTED)

    def _reopen(self, error: ConnectionLost) -> None:
        click.echo(f"\nthe connection to {self._device} broke ({error}); the app goes on; connecting again", err=True)
        try:
            self._device.reopen(REOPEN_S)
        except ConnectionLost as again:
            self._files.left_behind = True
            raise UserError(
                f"the connection to {self._device} broke after step {self._last_step} and could not be restored "
                f"({again}); the app goes on, and its files are in {self._files.run} on the device: get them with "
                "daf pull",
                Exit.DEVICE,
            ) from again

    def _fail_silent(self) -> None:
        if not self._status:
            raise UserError(
                f"the app on {self._device} did not answer within {_SILENCE_S:.0f} s; unlock the device, open the app, "
                "and call this again; `daf logs` may say more",
                Exit.DEVICE,
            )
        self._files.running_pid = None
        self._bring_home()
        raise UserError(
            f"the app on {self._device} has given no sign of life since step {self._last_step}: it was killed, most "
            f"likely for its memory, or hangs; use a smaller batch or --budget; {self._kept()}",
            Exit.DEVICE,
        )
