"""The text of a process whose threads publish as those of a web server do, when and for how long it is told."""

PROGRAM = '''\
"""`python callers.py KIND ADDRESS THREADS`: for each line `SECONDS` of its input a line of JSON with what it did."""

import json
import socket
import sys
import threading
import time

KIND, ADDRESS, THREADS = sys.argv[1], sys.argv[2], int(sys.argv[3])
CONTENT = "x" * 140
WARM_CALLS = 20


def publishing():
    """publish() of Django, outside of a transaction."""
    import django
    from django.conf import settings

    settings.configure(
        SECRET_KEY="benchmark",
        INSTALLED_APPS=[
            "django.contrib.auth", "django.contrib.contenttypes", "rest_framework", "entitlement", "realtime",
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        REALTIME={"CONTROL": ADDRESS},
    )
    django.setup()
    from realtime import publish

    return lambda subject: lambda: publish(subject, CONTENT)


def bare():
    """A round trip on a unix socket of each thread's own: nothing is checked, numbered or stored."""

    def connected(subject):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(ADDRESS)
        request = (subject + CONTENT).encode()

        def call():
            connection.sendall(request)
            connection.recv(65536)

        return call

    return connected


def redis():
    """PUBLISH of redis-py, with its pool of connections."""
    from redis import Redis

    client = Redis.from_url(ADDRESS)
    return lambda subject: lambda: client.publish(subject, CONTENT)


def channels():
    """group_send() of channels_redis under async_to_sync(), as its documentation has it for blocking code."""
    from asgiref.sync import async_to_sync
    from channels_redis.core import RedisChannelLayer

    send = async_to_sync(RedisChannelLayer(hosts=[ADDRESS]).group_send)
    return lambda subject: lambda: send(subject.strip("/").replace("/", "."), {"type": "said", "text": CONTENT})


class Crew:
    """Threads that call when they are told to, and note how long each call took."""

    def __init__(self, made):
        self.begin, self.end = threading.Barrier(THREADS + 1), threading.Barrier(THREADS + 1)
        self.until, self.times = 0.0, [[] for _ in range(THREADS)]
        self.errors = []
        for number in range(THREADS):
            threading.Thread(target=self.work, args=(made, number), daemon=True).start()

    def work(self, made, number):
        call, clock = made("/bench/%d" % number), time.perf_counter
        for _ in range(WARM_CALLS):
            call()
        while True:
            self.begin.wait()
            times, until = [], self.until
            before = clock()
            while before < until:
                try:
                    call()
                except Exception as error:
                    self.errors.append("%s: %s" % (type(error).__name__, error))
                    break
                after = clock()
                times.append(after - before)
                before = after
            self.times[number] = times
            self.end.wait()

    def run(self, seconds):
        self.until = time.perf_counter() + seconds
        spent = time.process_time()
        self.begin.wait()
        self.end.wait()
        spent = time.process_time() - spent
        times = sorted(one for each in self.times for one in each)
        return {"cpu_s": spent, "times_us": [round(one * 1e6) for one in times], "errors": self.errors[:3]}


crew = Crew({"publish": publishing, "bare": bare, "redis": redis, "channels": channels}[KIND]())
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps(crew.run(float(line))), flush=True)
'''

ECHO = '''\
"""`python echo.py PATH`: answers whatever comes on a unix socket with eight bytes, and does nothing else."""

import selectors
import socket
import sys

listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(1000)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in selector.select():
        if key.fileobj is listener:
            selector.register(listener.accept()[0], selectors.EVENT_READ)
        elif key.fileobj.recv(65536):
            key.fileobj.send(b"answered")
        else:
            selector.unregister(key.fileobj)
            key.fileobj.close()
'''
