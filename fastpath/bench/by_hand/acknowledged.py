"""`acknowledged`: what a delivery costs a server of MQTT when each subscriber acknowledges each message."""

from __future__ import annotations

import argparse
import select
import socket
import time

from ..load.peer_dialects import Mqtt
from ..load.sockets import BenchError
from ..machine.processes import open_files_most
from ..machine.procfs import cpu_ns

DESCRIPTION = """\
One publisher and --connections subscribers of one topic, all on a running server, in MQTT 3.1.1 with quality of service
1 (or --quality 0). Each subscriber acknowledges what it reads at once; the next message is published when all have all
but --in-flight of those before. Says the CPU time that the processes of --pid have used for a delivery. One process:
the server's time is what is measured, and not how much it could do."""

EXAMPLES = """\
examples:
  python -m fastpath.bench acknowledged --server 127.0.0.1:1883 --pid $(pgrep -x mosquitto)
  python -m fastpath.bench acknowledged --connections 200 --in-flight 16 --pid 4711"""

TOPIC = "stocks/us/IBM"
SECONDS_MAX = 10
"""A server that says nothing for so long has lost something."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the server, and how much it is given to do."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--server", default="127.0.0.1:1883", metavar="HOST:PORT", help="default %(default)s")
    parser.add_argument("--pid", type=int, action="append", default=[], help="a process of the server; may come again")
    parser.add_argument("--connections", type=int, default=200, metavar="N", help="subscribers (default 200)")
    parser.add_argument("--messages", type=int, default=500, metavar="N", help="published in all (default 500)")
    parser.add_argument("--in-flight", type=int, default=1, metavar="N", help="messages on the way (default 1)")
    parser.add_argument("--bytes", type=int, default=140, metavar="N", help="of a message (default 140)")
    parser.add_argument("--quality", type=int, choices=(0, 1), default=1, help="of service (default 1)")


def run(arguments: argparse.Namespace) -> int:
    """Connect, publish until all is delivered, and say what it cost."""
    host, _, port = arguments.server.rpartition(":")
    if not host or not port.isdecimal():
        raise BenchError(f"--server {arguments.server!r}: a server is HOST:PORT, such as 127.0.0.1:1883")
    dialect = Mqtt(arguments.quality)
    open_files_most()
    peers = [MqttClient(dialect, (host, int(port)), number, [TOPIC]) for number in range(arguments.connections)]
    publisher = MqttClient(dialect, (host, int(port)), 0, [])
    before, begin = cpu_ns(arguments.pid), time.monotonic()
    _deliver(publisher, peers, dialect.publication(TOPIC, b"x" * arguments.bytes), arguments)
    seconds, spent = time.monotonic() - begin, cpu_ns(arguments.pid) - before
    count = arguments.messages * arguments.connections
    cost = f"{spent / count / 1000:.2f} µs of CPU a delivery" if arguments.pid else "no --pid, so no CPU time"
    print(f"{count:,} deliveries of quality {arguments.quality}, {count / seconds:,.0f}/s; {cost}")
    for peer in (*peers, publisher):
        peer.sock.close()
    return 0


def _deliver(publisher: MqttClient, peers: list[MqttClient], packet: bytes, arguments: argparse.Namespace) -> None:
    poll = select.epoll()
    by_fd = {peer.sock.fileno(): peer for peer in (*peers, publisher)}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    sent = delivered = 0
    while delivered < arguments.messages * len(peers):
        while sent < min(arguments.messages, delivered // len(peers) + arguments.in_flight):
            sent += 1
            publisher.publish(packet, sent % 65_535 + 1)
        ready = poll.poll(SECONDS_MAX)
        if not ready:
            raise BenchError(f"{delivered:,} of {sent * len(peers):,} messages came, and nothing for {SECONDS_MAX} s")
        delivered += sum(by_fd[fd].read() for fd, _ in ready)
    poll.close()


class MqttClient:
    """A connection to the server, which has let it in and, if it has topics, subscribed to them."""

    def __init__(self, dialect: Mqtt, address: tuple[str, int], number: int, topics: list[str]) -> None:
        self._quality = dialect.quality
        self._rest = b""
        try:
            self.sock = socket.create_connection(address, SECONDS_MAX)
        except OSError as error:
            raise BenchError(f"{address[0]}:{address[1]}: {error.strerror or error}") from None
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(dialect.preamble(number, topics))
        wanted = dialect.settled if topics else b"\x20"
        answer = b""
        while wanted not in answer:
            answer += (data := self.sock.recv(1 << 16))
            if not data:
                raise BenchError("the server has ended the connection")

    def publish(self, packet: bytes, packet_id: int) -> None:
        """Send the packet, of quality 1 with this id in the place of its own."""
        if self._quality:
            at = packet.index(TOPIC.encode()) + len(TOPIC)
            packet = packet[:at] + packet_id.to_bytes(2) + packet[at + 2 :]
        self.sock.sendall(packet)

    def read(self) -> int:
        """Acknowledge the messages that have come; return how many they are."""
        came = self.sock.recv(1 << 16)
        if not came:
            raise BenchError("the server has ended a connection")
        data, at, count, answers = self._rest + came, 0, 0, b""
        while len(data) - at >= 2:
            size, place = data[at + 1] & 0x7F, 2
            if data[at + 1] & 0x80:
                if len(data) - at < 3:
                    break
                size, place = size | data[at + 2] << 7, 3
            body = at + place
            if len(data) - body < size:
                break
            if data[at] >> 4 == 3:
                count += 1
                if self._quality:
                    topic_end = body + 2 + int.from_bytes(data[body : body + 2])
                    answers += b"\x40\x02" + data[topic_end : topic_end + 2]
            at = body + size
        self._rest = data[at:]
        if answers:
            self.sock.sendall(answers)
        return count
