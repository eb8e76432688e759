/* The mark: what one thread of C can do at most with the work of a send, as CometMQ does it today.
 *
 *   limit PORT DIRECTORY
 *
 * It reads the frame and its JSON header, writes the record with its CRC into a mapped commit log and the queue's entry into a mapped
 * queue file, and replies. It does nothing else that a broker does: no checks, no other code, no recovery, no flush. Old log files are
 * removed, so that it can run for long. Prints "ready" once it listens on 127.0.0.1. Only benchmarks use it; warm it up first.
 *
 *   cc -O3 limit.c -o limit -lz
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "crc.h"

typedef unsigned char byte;

enum { QUEUES = 4, ENTRY = 20, QUEUE_FILE = 300000 * ENTRY, RECEIVE_SIZE = 262144, MOST_REPLY = 512, BLANK = 8 };
static const long LOG_FILE = 1l << 30;
static const char CLUSTER[] = "CLUSTER\001DefaultCluster\002";

static const char *directory;
static struct {
    byte *bytes;
    long number, used;
} commit_log;
static struct {
    byte *bytes;
    long used, entries;
    int number;
} queues[QUEUES];
static uint64_t now_ms;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void put32(byte *at, uint32_t value) {
    value = __builtin_bswap32(value);
    memcpy(at, &value, 4);
}

static void put64(byte *at, uint64_t value) {
    value = __builtin_bswap64(value);
    memcpy(at, &value, 8);
}

static uint32_t get32(const byte *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return __builtin_bswap32(value);
}

static byte *map_file(const char *kind, long number, long sub, long size) {
    char name[512];
    snprintf(name, sizeof name, "%s/%s%ld_%ld", directory, kind, number, sub);
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, size))
        fail(name);
    byte *bytes = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        fail(name);
    close(fd);
    return bytes;
}

static void next_log_file(void) {
    if (commit_log.bytes) {
        munmap(commit_log.bytes, (size_t)LOG_FILE);
        commit_log.number++;
    }
    commit_log.bytes = map_file("log", commit_log.number, 0, LOG_FILE);
    commit_log.used = 0;
    char old[512];
    snprintf(old, sizeof old, "%s/log%ld_0", directory, commit_log.number - 2);
    unlink(old);
}

/* ---- the header ---------------------------------------------------------------------------------------------------------------- */

typedef struct {
    const byte *at;
    long size;
} Text;

typedef struct {
    Text topic, properties;
    long queue, sys_flag, born_ms, flag, reconsume_times, opaque;
} Send;

static const byte *read_string(const byte *at, const byte *end, Text *text) {
    text->at = at;
    for (; at < end && *at != '"'; at++)
        if (*at == '\\')
            at++;
    text->size = at - text->at;
    return at + 1;
}

static long number(Text text) {
    long value = 0;
    for (long i = 0; i < text.size; i++)
        value = value * 10 + text.at[i] - '0';
    return value;
}

static void read_field(Send *send, byte name, Text value) {
    switch (name) {
    case 'b': send->topic = value; break;
    case 'e': send->queue = number(value); break;
    case 'f': send->sys_flag = number(value); break;
    case 'g': send->born_ms = number(value); break;
    case 'h': send->flag = number(value); break;
    case 'i': send->properties = value; break;
    case 'j': send->reconsume_times = number(value); break;
    }
}

static void read_header(const byte *at, const byte *end, Send *send) {
    int depth = 0;
    while (at < end) {
        Text name, value;
        if (*at == '{')
            depth++;
        else if (*at == '}')
            depth--;
        if (*at != '"') {
            at++;
            continue;
        }
        at = read_string(at + 1, end, &name);
        while (at < end && (*at == ':' || *at == ' '))
            at++;
        if (*at == '"') {
            at = read_string(at + 1, end, &value);
            if (depth == 2 && name.size == 1)
                read_field(send, *name.at, value);
        } else if (*at != '{') {
            value.at = at;
            while (at < end && *at >= '0' && *at <= '9')
                at++;
            value.size = at - value.at;
            if (name.size == 6 && *name.at == 'o')
                send->opaque = number(value);
        }
    }
}

static int hex_digit(byte digit) {
    return digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10;
}

/* The properties without JSON's escapes; returns their size. Those of the load are below 256. */
static long unescape(Text text, byte *out) {
    long size = 0;
    for (long i = 0; i < text.size;) {
        if (text.at[i] != '\\') {
            out[size++] = text.at[i++];
        } else if (text.at[i + 1] == 'u') {
            out[size++] = (byte)(hex_digit(text.at[i + 4]) << 4 | hex_digit(text.at[i + 5]));
            i += 6;
        } else {
            out[size++] = text.at[i + 1];
            i += 2;
        }
    }
    return size;
}

static int32_t java_hash(const byte *at, const byte *end) {
    uint32_t hash = 0;
    while (at < end)
        hash = hash * 31 + *at++;
    return (int32_t)hash;
}

typedef struct {
    int32_t tag_hash;
    const byte *wait, *wait_end; /* this property is not stored */
} Scanned;

static Scanned scan(const byte *at, const byte *end) {
    Scanned found = {0, NULL, NULL};
    while (at < end) {
        const byte *value = memchr(at, 1, (size_t)(end - at));
        if (!value)
            break;
        const byte *stop = memchr(value, 2, (size_t)(end - value));
        if (!stop)
            stop = end;
        if (value - at == 4 && !memcmp(at, "TAGS", 4))
            found.tag_hash = java_hash(value + 1, stop);
        else if (value - at == 4 && !memcmp(at, "WAIT", 4))
            found = (Scanned){found.tag_hash, at, stop + 1};
        at = stop + 1;
    }
    return found;
}

/* ---- the store ----------------------------------------------------------------------------------------------------------------- */

static void add_entry(long queue, long position, long size, int32_t tag_hash) {
    if (!queues[queue].bytes || queues[queue].used == QUEUE_FILE) {
        if (queues[queue].bytes)
            munmap(queues[queue].bytes, QUEUE_FILE);
        queues[queue].bytes = map_file("queue", queue, queues[queue].number++, QUEUE_FILE);
        queues[queue].used = 0;
    }
    byte *at = queues[queue].bytes + queues[queue].used;
    put64(at, (uint64_t)position);
    put32(at + 8, (uint32_t)size);
    put64(at + 12, (uint64_t)(int64_t)tag_hash);
    queues[queue].used += ENTRY;
    queues[queue].entries++;
}

/* Writes the record and returns its position. */
static long add_record(const Send *send, const byte *body, long body_size) {
    static byte properties[65536];
    long own = unescape(send->properties, properties), cluster = sizeof CLUSTER - 1;
    Scanned found = scan(properties, properties + own);
    long cut = found.wait ? found.wait_end - found.wait : 0;
    long stored = own - cut + cluster, size = 91 + body_size + send->topic.size + stored;
    if (!commit_log.bytes || commit_log.used + size + BLANK > LOG_FILE)
        next_log_file();
    long position = commit_log.number * LOG_FILE + commit_log.used;
    byte *at = commit_log.bytes + commit_log.used;
    put32(at, (uint32_t)size);
    put32(at + 4, 0xdaa320a7);
    put32(at + 8, crc_of(body, (size_t)body_size) & 0x7fffffff);
    put32(at + 12, (uint32_t)send->queue);
    put32(at + 16, (uint32_t)send->flag);
    put64(at + 20, (uint64_t)queues[send->queue].entries);
    put64(at + 28, (uint64_t)position);
    put32(at + 36, (uint32_t)send->sys_flag);
    put64(at + 40, (uint64_t)send->born_ms);
    memcpy(at + 48, "\x7f\0\0\1\0\0\x9c\x40", 8);
    put64(at + 56, now_ms);
    memcpy(at + 64, "\x7f\0\0\1\0\0\x2a\x9f", 8);
    put32(at + 72, (uint32_t)send->reconsume_times);
    put64(at + 76, 0);
    put32(at + 84, (uint32_t)body_size);
    at = mempcpy(at + 88, body, (size_t)body_size);
    *at++ = (byte)send->topic.size;
    at = mempcpy(at, send->topic.at, (size_t)send->topic.size);
    *at++ = (byte)(stored >> 8);
    *at++ = (byte)stored;
    if (found.wait) {
        at = mempcpy(at, properties, (size_t)(found.wait - properties));
        at = mempcpy(at, found.wait_end, (size_t)(properties + own - found.wait_end));
    } else {
        at = mempcpy(at, properties, (size_t)own);
    }
    memcpy(at, CLUSTER, (size_t)cluster);
    commit_log.used += size;
    add_entry(send->queue, position, size, found.tag_hash);
    return position;
}

/* Takes one frame and writes the reply; returns the reply's size. */
static long answer(const byte *frame, uint32_t length, byte *out) {
    uint32_t header = get32(frame + 4) & 0xffffff;
    const byte *body = frame + 8 + header;
    Send send = {0};
    read_header(frame + 8, body, &send);
    send.queue %= QUEUES;
    long position = add_record(&send, body, (long)length - 4 - (long)header);
    int size = snprintf((char *)out + 8, MOST_REPLY - 8,
                        "{\"code\":0,\"extFields\":{\"MSG_REGION\":\"DefaultRegion\",\"TRACE_ON\":\"true\",\"msgId\":\"7F00000100002A9F%016lX\","
                        "\"queueId\":\"%ld\",\"queueOffset\":\"%ld\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":%ld,"
                        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":475}",
                        (unsigned long)position, send.queue, queues[send.queue].entries - 1, send.opaque);
    put32(out, (uint32_t)size + 4);
    put32(out + 4, (uint32_t)size);
    return size + 8;
}

/* ---- the server ---------------------------------------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    long used;
    byte bytes[RECEIVE_SIZE];
} Connection;

static void accept_connection(int poll, int listener) {
    int one = 1;
    Connection *connection = malloc(sizeof *connection);
    connection->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    connection->used = 0;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(poll, EPOLL_CTL_ADD, connection->fd, &event);
}

static void send_all(int fd, const byte *bytes, long size) {
    while (size > 0) {
        ssize_t count = send(fd, bytes, (size_t)size, MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN)
            return; /* the next read finds the connection closed */
        if (count < 0) {
            usleep(50);
            continue;
        }
        bytes += count;
        size -= count;
    }
}

static void serve(Connection *connection, byte *out) {
    ssize_t count = recv(connection->fd, connection->bytes + connection->used, (size_t)(RECEIVE_SIZE - connection->used), 0);
    if (count < 0 && errno == EAGAIN)
        return;
    if (count <= 0) {
        close(connection->fd);
        free(connection);
        return;
    }
    connection->used += count;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    long at = 0, replied = 0;
    while (connection->used - at >= 8) {
        uint32_t length = get32(connection->bytes + at);
        if (connection->used - at < (long)length + 4)
            break;
        replied += answer(connection->bytes + at, length, out + replied);
        at += (long)length + 4;
    }
    connection->used -= at;
    memmove(connection->bytes, connection->bytes + at, (size_t)connection->used);
    send_all(connection->fd, out, replied);
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "limit PORT DIRECTORY\n");
        return 2;
    }
    directory = arguments[2];
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 256))
        fail("listen");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[64];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    puts("ready");
    fflush(stdout);
    /* No frame of the load is shorter than its reply. */
    byte *out = malloc(RECEIVE_SIZE + MOST_REPLY);
    for (;;) {
        int ready = epoll_wait(poll, events, 64, -1);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr)
                serve(events[i].data.ptr, out);
            else
                accept_connection(poll, listener);
    }
}
