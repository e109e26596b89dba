/*
 * floor.c: the least that a WebSocket fan-out can cost.
 *
 *     cc -O2 -o floor floor.c && ./floor PORT COALESCE
 *
 * An epoll loop and nothing else: no rights, history, sequence numbers, pings, limits or statistics. What a server costs
 * beyond it is what those things cost. It is a measuring instrument for the loopback, not a server to be exposed.
 *
 *   GET /p                 a publisher; each text frame is "s12 payload"
 *   GET /s/s12             a subscriber of one subject; those of one subject share one output buffer
 *   GET /s/s12,s7,s400     a subscriber of a list, with an output buffer of its own
 *   GET /s/ and an asterisk: a subscriber of every subject; they share one output buffer
 *
 * COALESCE 0: one send per message and subscriber. COALESCE 1: what one round of the loop brought goes out in one send per
 * subscriber. A subscriber that does not read is queued without bound.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SUBJECTS_MAX = 200000, EVENTS_MAX = 1024, READ_BYTES = 2 << 20, HEAD_BYTES = 65536, PAYLOAD_BYTES_MAX = 65535 };

enum kind { OPENING, SUBSCRIBER, LISTENER_OF_LIST, PUBLISHER };

struct buffer {
    char *bytes;
    size_t length, capacity;
};

struct connection {
    int fd;
    enum kind kind;
    int *subjects;        /* what it subscribes to; NULL for a publisher and for all subjects */
    int subject_count;
    struct buffer in;     /* a publisher's cut frame, or a cut request */
    struct buffer out;    /* a list's frames of this round */
    struct buffer waiting;/* what the socket did not take */
    int touched;          /* already among those to be flushed at the end of this round */
};

/* Who gets a subject's messages: those with one buffer for all of them, and those with a buffer each. */
struct group {
    struct connection **members;
    int count, capacity;
};

struct subject {
    struct group shared, own;
    struct buffer out;
    int touched;
};

static struct subject subjects[SUBJECTS_MAX], everything;
static struct connection **by_fd, **touched_connections;
static struct subject **touched_subjects;
static int by_fd_size, touched_connection_count, touched_subject_count;
static int epoll_fd, coalesce;
static char input[READ_BYTES];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void append(struct buffer *buffer, const char *bytes, size_t length) {
    if (buffer->length + length > buffer->capacity) {
        size_t capacity = buffer->capacity ? buffer->capacity : 256;
        while (capacity < buffer->length + length) capacity *= 2;
        buffer->bytes = realloc(buffer->bytes, capacity);
        if (!buffer->bytes) fail("memory");
        buffer->capacity = capacity;
    }
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
}

static void release(struct buffer *buffer) {
    free(buffer->bytes);
    memset(buffer, 0, sizeof *buffer);
}

static void join(struct group *group, struct connection *member) {
    if (group->count == group->capacity) {
        group->capacity = group->capacity ? group->capacity * 2 : 1;
        group->members = realloc(group->members, group->capacity * sizeof *group->members);
        if (!group->members) fail("memory");
    }
    group->members[group->count++] = member;
}

static void leave(struct group *group, struct connection *member) {
    for (int i = 0; i < group->count; i++)
        if (group->members[i] == member) {
            group->members[i] = group->members[--group->count];
            return;
        }
}

static void watch(struct connection *c, int operation, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = c->fd};
    if (epoll_ctl(epoll_fd, operation, c->fd, &event)) fail("epoll_ctl");
}

/* Send now; what the socket does not take waits until it is writable. */
static void deliver(struct connection *c, const char *bytes, size_t length) {
    if (!c->waiting.length) {
        ssize_t sent = send(c->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent == (ssize_t)length) return;
        if (sent < 0 && errno != EAGAIN) return; /* it is gone: its end will be read */
        if (sent > 0) bytes += sent, length -= sent;
        watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    }
    append(&c->waiting, bytes, length);
}

static void deliver_waiting(struct connection *c) {
    ssize_t sent = send(c->fd, c->waiting.bytes, c->waiting.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return;
    c->waiting.length -= sent;
    memmove(c->waiting.bytes, c->waiting.bytes + sent, c->waiting.length);
    if (!c->waiting.length) {
        release(&c->waiting);
        watch(c, EPOLL_CTL_MOD, EPOLLIN);
    }
}

static void gather(struct subject *subject, const char *frame, size_t length) {
    if (subject->shared.count) {
        if (!subject->touched) {
            subject->touched = 1;
            touched_subjects[touched_subject_count++] = subject;
        }
        append(&subject->out, frame, length);
    }
    for (int i = 0; i < subject->own.count; i++) {
        struct connection *c = subject->own.members[i];
        if (!c->touched) {
            c->touched = 1;
            touched_connections[touched_connection_count++] = c;
        }
        append(&c->out, frame, length);
    }
}

static void broadcast(struct subject *subject, const char *frame, size_t length) {
    for (int i = 0; i < subject->shared.count; i++) deliver(subject->shared.members[i], frame, length);
    for (int i = 0; i < subject->own.count; i++) deliver(subject->own.members[i], frame, length);
}

/* The end of a round: one send for each subscriber that something was gathered for. */
static void flush(void) {
    for (int i = 0; i < touched_subject_count; i++) {
        struct subject *subject = touched_subjects[i];
        for (int k = 0; k < subject->shared.count; k++)
            deliver(subject->shared.members[k], subject->out.bytes, subject->out.length);
        subject->out.length = subject->touched = 0;
    }
    for (int i = 0; i < touched_connection_count; i++) {
        struct connection *c = touched_connections[i];
        deliver(c, c->out.bytes, c->out.length);
        c->out.length = c->touched = 0;
    }
    touched_subject_count = touched_connection_count = 0;
}

static void publish(const char *text, size_t length) {
    char *after;
    long number = length > 1 && text[0] == 's' ? strtol(text + 1, &after, 10) : -1;
    if (number < 0 || number >= SUBJECTS_MAX || after >= text + length || *after != ' ') return;
    size_t size = text + length - (after + 1), head = size < 126 ? 2 : 4;
    static char frame[PAYLOAD_BYTES_MAX + 4];
    frame[0] = (char)0x81;
    frame[1] = (char)(size < 126 ? size : 126);
    frame[2] = (char)(size >> 8);
    frame[3] = (char)size;
    memcpy(frame + head, after + 1, size);
    if (coalesce) {
        gather(&subjects[number], frame, head + size);
        gather(&everything, frame, head + size);
    } else {
        broadcast(&subjects[number], frame, head + size);
        broadcast(&everything, frame, head + size);
    }
}

/* Whole frames of a publisher; the generator's masking key is zero, so the payload stands there as it is. */
static size_t publish_frames(const char *bytes, size_t length) {
    size_t at = 0;
    while (length - at >= 6) {
        const unsigned char *frame = (const unsigned char *)bytes + at;
        size_t size = frame[1] & 127, head = 6;
        if (size == 127) return length; /* longer than this program takes */
        if (size == 126) {
            if (length - at < 8) break;
            size = frame[2] << 8 | frame[3];
            head = 8;
        }
        if (length - at < head + size) break;
        if ((frame[0] & 15) == 1) publish(bytes + at + head, size);
        at += head + size;
    }
    return at;
}

static void end(struct connection *c) {
    for (int i = 0; i < c->subject_count; i++) {
        leave(&subjects[c->subjects[i]].own, c);
        leave(&subjects[c->subjects[i]].shared, c);
    }
    leave(&everything.shared, c);
    for (int i = 0; i < touched_connection_count; i++)
        if (touched_connections[i] == c) touched_connections[i--] = touched_connections[--touched_connection_count];
    close(c->fd);
    by_fd[c->fd] = NULL;
    free(c->subjects);
    release(&c->in);
    release(&c->out);
    release(&c->waiting);
    free(c);
}

static void subscribe(struct connection *c, char *list) {
    c->kind = SUBSCRIBER;
    if (*list == '*') {
        join(&everything.shared, c);
        return;
    }
    int count = 1;
    for (char *p = list; *p && *p != ' '; p++) count += *p == ',';
    c->subjects = calloc(count, sizeof *c->subjects);
    if (!c->subjects) fail("memory");
    for (char *p = list; c->subject_count < count && *p == 's'; p++) {
        long number = strtol(p + 1, &p, 10);
        if (number < 0 || number >= SUBJECTS_MAX) break;
        c->subjects[c->subject_count++] = (int)number;
        if (*p != ',') break;
    }
    if (c->subject_count > 1) c->kind = LISTENER_OF_LIST;
    for (int i = 0; i < c->subject_count; i++) {
        struct subject *subject = &subjects[c->subjects[i]];
        join(c->kind == LISTENER_OF_LIST ? &subject->own : &subject->shared, c);
    }
}

/* The request; the answer belongs to the key of RFC 6455's example, which is the only one that the generator sends. */
static void upgrade(struct connection *c) {
    static const char answer[] =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    append(&c->in, "", 1);
    if (!strncmp(c->in.bytes, "GET /p", 6)) c->kind = PUBLISHER;
    else if (!strncmp(c->in.bytes, "GET /s/", 7)) subscribe(c, c->in.bytes + 7);
    else {
        end(c);
        return;
    }
    release(&c->in);
    deliver(c, answer, sizeof answer - 1);
}

static void readable(struct connection *c) {
    size_t held = c->in.length;
    if (held) memcpy(input, c->in.bytes, held);
    ssize_t got = recv(c->fd, input + held, sizeof input - held, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) end(c);
        return;
    }
    size_t length = held + got;
    if (c->kind == PUBLISHER) {
        size_t used = publish_frames(input, length);
        c->in.length = 0;
        if (used < length) append(&c->in, input + used, length - used);
    } else if (c->kind == OPENING) {
        append(&c->in, input + held, got);
        if (memmem(c->in.bytes, c->in.length, "\r\n\r\n", 4)) upgrade(c);
        else if (c->in.length > HEAD_BYTES) end(c);
    }
}

static void accept_some(int listener) {
    for (int i = 0; i < 64; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0) return;
        struct connection *c = fd < by_fd_size ? calloc(1, sizeof *c) : NULL;
        if (!c) {
            close(fd);
            continue;
        }
        c->fd = fd;
        by_fd[fd] = c;
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }
}

static int listen_on(int port) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) fail("listen");
    return listener;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "floor PORT COALESCE\n");
        return 2;
    }
    coalesce = atoi(argv[2]);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    by_fd_size = files.rlim_cur > 4000000 ? 4000000 : (int)files.rlim_cur;
    by_fd = calloc(by_fd_size, sizeof *by_fd);
    touched_connections = calloc(by_fd_size, sizeof *touched_connections);
    touched_subjects = calloc(SUBJECTS_MAX + 1, sizeof *touched_subjects);
    if (!by_fd || !touched_connections || !touched_subjects) fail("memory");
    int listener = listen_on(atoi(argv[1]));
    if ((epoll_fd = epoll_create1(0)) < 0) fail("epoll");
    struct epoll_event first = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &first);
    static struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int count = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener) {
                accept_some(listener);
                continue;
            }
            struct connection *c = by_fd[events[i].data.fd];
            if (!c) continue;
            if (events[i].events & EPOLLOUT && c->waiting.length) deliver_waiting(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
        }
        flush();
    }
}
