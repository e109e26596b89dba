"""Send what publish() has written to the outbox (docs/develop/publishing.md)."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from fastpath.stop_signal import stop_on_signals
from realtime.conf import conf
from realtime.nodes.control_sockets import control
from realtime.publishing.outbox.listening import Waker
from realtime.publishing.outbox.sending import Sender
from realtime.publishing.outbox.store import OutboxStore

READY = "sending the outbox of"
"""Beginning of the line that the command prints when it runs."""


class Command(BaseCommand):
    """The sender of the outbox, which runs until SIGINT or SIGTERM."""

    help = 'Send what publish() has written to REALTIME["OUTBOX"], until told to stop. Of several one works.'

    def handle(self, *_: Any, **__: Any) -> None:
        """Batch after batch, in the order of the commits."""
        try:
            database = conf.outbox
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
        if not database:
            raise CommandError('there is nothing to send: REALTIME["OUTBOX"] is not set')
        with stop_on_signals() as stop, control() as nodes:
            sender = Sender(OutboxStore(database), nodes, Waker(database, stop), stop)
            self.stdout.write(f'{READY} the database "{database}"')
            self.stdout.flush()
            sender.run()
