"""A trace in Perfetto's own format, for ui.perfetto.dev.

One process with a track of steps (slices of the step and its phases), one of operators, one of events (drops and the
like, as instants) and a counter track for every number that the trace counts. Packets are written as rows come.
"""

from __future__ import annotations

from typing import BinaryIO

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BuiltinClock,
    CounterDescriptor,
    Trace,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)

from daf.tools.trace.rows import Counters, Event, Header, Row, Step
from daf.tools.trace.step_timeline import phases_of

_PROCESS, _STEPS, _OPERATORS, _EVENTS, _FIRST_COUNTER = 1, 2, 3, 4, 100  # track ids
_PID = 1
_MAX_COUNTERS = 200
# As frequent as tensors are read: in the trace, but of no use on a screen.
_NOT_SHOWN = frozenset({"fetch"})

Annotations = dict[str, float | str]


class PerfettoWriter:
    def __init__(self, file: BinaryIO, header: Header) -> None:
        self._file = file
        self._counter_tracks: dict[str, int] = {}
        self._write_clock(header.started_unix_ms)
        process = TrackDescriptor(uuid=_PROCESS)
        process.process.pid = _PID
        process.process.process_name = f"{header.model} on {header.device.get('model', 'a device')}"
        self._write(TracePacket(track_descriptor=process))
        for track, name in ((_STEPS, "steps"), (_OPERATORS, "operators"), (_EVENTS, "events")):
            self._write(TracePacket(track_descriptor=TrackDescriptor(uuid=track, parent_uuid=_PROCESS, name=name)))

    def add(self, row: Row) -> None:
        if isinstance(row, Step):
            self._add_step(row)
        elif isinstance(row, Counters):
            for name, value in row.values.items():
                self._add_counter(name, row.t_us, value)
        elif isinstance(row, Event):
            self._add_event(row)

    def _add_step(self, row: Step) -> None:
        annotations: Annotations = {"loss": row.loss, "lr": row.lr, "samples": row.samples}
        self._slice(_STEPS, f"step {row.step}", row.start_us * 1000, row.total_us * 1000, annotations)
        for name, start_us, duration_us in phases_of(row):
            self._slice(_STEPS, name, (row.start_us + start_us) * 1000, duration_us * 1000, {})

    def _add_event(self, row: Event) -> None:
        start_ns = row.t_us * 1000
        for name, duration_ns in row.ops:
            self._slice(_OPERATORS, name or "(none)", start_ns, duration_ns, {})
            start_ns += duration_ns
        if row.event not in _NOT_SHOWN:
            annotations: Annotations = {**row.fields, "step": row.step}
            if row.tensor:
                annotations["tensor"] = row.tensor
            event = TrackEvent(type=TrackEvent.TYPE_INSTANT, track_uuid=_EVENTS, name=row.event)
            self._write_event(event, row.t_us * 1000, annotations)

    def _add_counter(self, name: str, t_us: int, value: int) -> None:
        if name not in self._counter_tracks:
            if len(self._counter_tracks) == _MAX_COUNTERS:
                return
            self._describe_counter(name)
        event = TrackEvent(type=TrackEvent.TYPE_COUNTER, track_uuid=self._counter_tracks[name], counter_value=value)
        self._write_event(event, t_us * 1000, {})

    def _describe_counter(self, name: str) -> None:
        uuid = self._counter_tracks[name] = _FIRST_COUNTER + len(self._counter_tracks)
        is_count = name == "temperature_mc"
        unit = CounterDescriptor.UNIT_COUNT if is_count else CounterDescriptor.UNIT_SIZE_BYTES
        track = TrackDescriptor(uuid=uuid, parent_uuid=_PROCESS, name=name, counter=CounterDescriptor(unit=unit))
        self._write(TracePacket(track_descriptor=track))

    def _slice(self, track: int, name: str, start_ns: int, duration_ns: int, annotations: Annotations) -> None:
        begin = TrackEvent(type=TrackEvent.TYPE_SLICE_BEGIN, track_uuid=track, name=name)
        self._write_event(begin, start_ns, annotations)
        self._write_event(TrackEvent(type=TrackEvent.TYPE_SLICE_END, track_uuid=track), start_ns + duration_ns, {})

    def _write_event(self, event: TrackEvent, t_ns: int, annotations: Annotations) -> None:
        for name, value in annotations.items():
            kind = {str: "string_value", int: "int_value", float: "double_value"}[type(value)]
            event.debug_annotations.add(**{"name": name, kind: value})
        self._write(TracePacket(timestamp=min(t_ns, 2**63), track_event=event))

    def _write_clock(self, started_unix_ms: int) -> None:
        """Time 0 of the trace is the start of the run."""
        packet = TracePacket()
        packet.clock_snapshot.clocks.add(clock_id=BuiltinClock.BUILTIN_CLOCK_BOOTTIME, timestamp=0)
        started_ns = min(started_unix_ms * 1_000_000, 2**63 - 1)
        packet.clock_snapshot.clocks.add(clock_id=BuiltinClock.BUILTIN_CLOCK_REALTIME, timestamp=started_ns)
        self._write(packet)

    def _write(self, packet: TracePacket) -> None:
        # A trace is a message with repeated packets: serialised one by one they add up to it.
        packet.trusted_packet_sequence_id = 1
        self._file.write(Trace(packet=[packet]).SerializeToString())
