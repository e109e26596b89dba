"""The text of a project with an outbox, and of a process that fills it and waits for what arrives."""

SETTINGS = '''\
"""The project's own settings, with an outbox."""

import json
import os

from realtime.settings import *

DEBUG = False
DATABASES = {"default": json.loads(os.environ["BENCH_DATABASE"])}
REALTIME = REALTIME | {"CONTROL": os.environ["BENCH_CONTROL"], "OUTBOX": True}
'''

PROGRAM = '''\
"""`python filler.py CLIENTS`: for each line of its input a line of JSON: `fill ROWS`, `drain`, `latency MESSAGES`."""

import asyncio
import json
import sys
import threading
import time

import django

django.setup()

from django.db import connection, transaction

from fastpath.client import connect
from realtime import publish, publish_many
from realtime.models import OutboxMessage

SUBJECT = "/bench/latency"
CONTENT = "x" * 140
GAP_SECONDS = 0.02
SECONDS_MAX = 60


def fill(rows):
    """Rows of a hundred subjects, a thousand to a transaction."""
    for start in range(0, rows, 1000):
        publish_many([("/bench/%d" % (n % 100), CONTENT) for n in range(start, min(start + 1000, rows))])
    return OutboxMessage.objects.count()


def drain():
    """Until there is none left."""
    end = time.monotonic() + SECONDS_MAX
    while OutboxMessage.objects.exists():
        if time.monotonic() > end:
            raise SystemExit("the outbox was not sent")
        time.sleep(0.005)


def latency(messages):
    """From the end of each transaction to the subscriber, in ms; one transaction each 20 ms."""
    ready, came = threading.Event(), {}
    names = ["%d.%d" % (time.time_ns(), number) for number in range(messages)]

    async def listen():
        async with connect(sys.argv[1], on_status=lambda told: told.name == "subscribed" and ready.set()) as client:
            async for message in client.subscribe(SUBJECT):
                came[message.content] = time.perf_counter()
                if message.content == names[-1]:
                    return

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    ready.wait(SECONDS_MAX)
    sent = []
    for name in names:
        with transaction.atomic():
            publish(SUBJECT, name)
        sent.append(time.perf_counter())
        time.sleep(GAP_SECONDS)
    thread.join(SECONDS_MAX)
    return sorted((came[name] - at) * 1000 for name, at in zip(names, sent, strict=True))


print("ready", flush=True)
for line in sys.stdin:
    name, *arguments = line.split()
    print(json.dumps({"fill": fill, "drain": drain, "latency": latency}[name](*map(int, arguments))), flush=True)
connection.close()
'''
