/* The load generator: keeps a number of sends or pulls in flight on each of several connections and measures.
 *
 *   load send|pull HOST PORT CONNECTIONS WINDOW BODY SECONDS [SUBSCRIPTION] [MAXOFFSET]
 *
 * WINDOW is the number of requests in flight on each connection, BODY the size of a message's body in bytes. A pull reads topic
 * TopicTest's four queues in turns of 32, up to MAXOFFSET (default 1,000,000), which must not pass the queues' end. Half a second passes
 * before measuring begins. Prints one JSON object. A reply with another code than 0 is counted in "bad" and in nothing else.
 *
 *   cc -O3 load.c -o load
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RECEIVE_SIZE = 8 << 20, MOST_LATENCIES = 4000000, QUEUES = 4, PULL_BATCH = 32 };
#define WARM_UP_NS 500000000ull

typedef struct {
    int fd;
    int wants_out; /* epoll tells when the socket takes more */
    char *out;
    size_t out_end, out_begin;
    char *in;
    size_t in_end;
    uint64_t *sent_ns; /* a ring of WINDOW entries: replies of one connection come in the order of its requests */
    uint64_t sent, answered;
    long offset; /* of the next pull */
    int queue;
} Connection;

/* One request as bytes, with the places where each request differs. */
static struct {
    char *bytes;
    size_t size, opaque, queue, key, unique, tag, offset;
} request;

static int pulling, window, offset_step = PULL_BATCH;
static long max_offset = 1000000;
static uint64_t sequence;
static uint32_t *latencies; /* in tenths of a microsecond */
static uint64_t latency_count, good, bad, bytes_in;

static const char SEND[] =
    "{\"code\":310,\"extFields\":{\"a\":\"benchmark_producer\",\"b\":\"TopicTest\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"Q\",\"f\":\"0\","
    "\"g\":\"1731955569000\",\"h\":\"0\",\"i\":\"KEYS\\u0001k########\\u0002UNIQ_KEY\\u0001AC11000100002A139F55@@@@@@@@0000\\u0002"
    "WAIT\\u0001true\\u0002TAGS\\u0001Tag~\\u0002\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\",\"n\":\"broker-a\"},\"flag\":0,"
    "\"language\":\"JAVA\",\"opaque\":!!!!!!!!,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":475}";

static const char PULL[] =
    "{\"code\":11,\"extFields\":{\"commitOffset\":\"0\",\"consumerGroup\":\"benchmark_consumer\",\"expressionType\":\"TAG\","
    "\"maxMsgNums\":\"32\",\"queueId\":\"Q\",\"queueOffset\":\"^^^^^^^^^^^^^^^^\",\"subVersion\":\"1731955569000\","
    "\"subscription\":\"%s\",\"suspendTimeoutMillis\":\"15000\",\"sysFlag\":\"6\",\"topic\":\"TopicTest\"},\"flag\":0,"
    "\"language\":\"JAVA\",\"opaque\":!!!!!!!!,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":475}";

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void put_digits(char *at, uint64_t value, int count) {
    while (count--) {
        at[count] = (char)('0' + value % 10);
        value /= 10;
    }
}

static uint32_t get32(const char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static void put32(char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

static void make_request(int body_size, const char *subscription) {
    char header[4096];
    if (pulling)
        snprintf(header, sizeof header, PULL, subscription);
    else
        snprintf(header, sizeof header, "%s", SEND);
    size_t length = strlen(header);
    request.size = 8 + length + (pulling ? 0 : (size_t)body_size);
    request.bytes = malloc(request.size);
    put32(request.bytes, (uint32_t)(request.size - 4));
    put32(request.bytes + 4, (uint32_t)length);
    memcpy(request.bytes + 8, header, length);
    for (size_t i = 8 + length; i < request.size; i++)
        request.bytes[i] = (char)('a' + i % 26);
    request.opaque = 8 + (size_t)(strstr(header, "!!!!!!!!") - header);
    request.queue = 8 + (size_t)(strstr(header, "\"Q\"") - header) + 1;
    if (pulling) {
        request.offset = 8 + (size_t)(strstr(header, "^^^") - header);
        return;
    }
    request.key = 8 + (size_t)(strstr(header, "########") - header);
    request.unique = 8 + (size_t)(strstr(header, "@@@@@@@@") - header);
    request.tag = 8 + (size_t)(strchr(header, '~') - header);
}

static void append(Connection *connection, int count) {
    if (connection->out_begin) {
        connection->out_end -= connection->out_begin;
        memmove(connection->out, connection->out + connection->out_begin, connection->out_end);
        connection->out_begin = 0;
    }
    uint64_t now = now_ns();
    while (count--) {
        char *at = connection->out + connection->out_end;
        uint64_t number = sequence++;
        memcpy(at, request.bytes, request.size);
        put_digits(at + request.opaque, 10000000 + number % 80000000, 8);
        if (pulling) {
            at[request.queue] = (char)('0' + connection->queue);
            put_digits(at + request.offset, (uint64_t)connection->offset, 16);
            connection->queue = (connection->queue + 1) % QUEUES;
            if (connection->queue == 0)
                connection->offset += offset_step;
            if (connection->offset + offset_step + PULL_BATCH >= max_offset)
                connection->offset = 0;
        } else {
            at[request.queue] = (char)('0' + number % QUEUES);
            put_digits(at + request.key, number, 8);
            put_digits(at + request.unique, number, 8);
            at[request.tag] = (char)('A' + number / QUEUES % 2);
        }
        connection->out_end += request.size;
        connection->sent_ns[connection->sent++ % (uint64_t)window] = now;
    }
}

static void want_out(int poll, Connection *connection, int wanted) {
    if (connection->wants_out == wanted)
        return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = connection};
    epoll_ctl(poll, EPOLL_CTL_MOD, connection->fd, &event);
    connection->wants_out = wanted;
}

static void flush(int poll, Connection *connection) {
    while (connection->out_begin < connection->out_end) {
        size_t left = connection->out_end - connection->out_begin;
        ssize_t count = send(connection->fd, connection->out + connection->out_begin, left, MSG_NOSIGNAL);
        if (count < 0 && errno == EAGAIN) {
            want_out(poll, connection, 1);
            return;
        }
        if (count < 0)
            fail("send");
        connection->out_begin += (size_t)count;
    }
    connection->out_begin = connection->out_end = 0;
    want_out(poll, connection, 0);
}

/* Reads what is there and returns how many replies it completed. */
static int receive(Connection *connection) {
    ssize_t count = recv(connection->fd, connection->in + connection->in_end, RECEIVE_SIZE - connection->in_end, 0);
    if (count < 0 && errno == EAGAIN)
        return 0;
    if (count <= 0) {
        fprintf(stderr, "the server closed the connection\n");
        exit(1);
    }
    connection->in_end += (size_t)count;
    bytes_in += (uint64_t)count;
    uint64_t now = now_ns();
    size_t at = 0;
    int replies = 0;
    while (connection->in_end - at >= 8) {
        const char *frame = connection->in + at;
        uint32_t length = get32(frame), header = get32(frame + 4) & 0xffffff;
        if (connection->in_end - at < (size_t)length + 4)
            break;
        if (memmem(frame + 8, header, "\"code\":0", 8))
            good++;
        else if (!bad++)
            fprintf(stderr, "first refusal: %.*s\n", (int)header, frame + 8);
        uint64_t waited = (now - connection->sent_ns[connection->answered++ % (uint64_t)window]) / 100;
        if (latency_count < MOST_LATENCIES)
            latencies[latency_count++] = waited > UINT32_MAX ? UINT32_MAX : (uint32_t)waited;
        at += (size_t)length + 4;
        replies++;
    }
    if (at) {
        connection->in_end -= at;
        memmove(connection->in, connection->in + at, connection->in_end);
    }
    return replies;
}

static void open_connection(Connection *connection, const struct sockaddr_in *address, int poll, long offset) {
    int one = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection->fd, (const struct sockaddr *)address, sizeof *address))
        fail("connect");
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    connection->out = malloc(((size_t)window + 1) * request.size);
    connection->in = malloc(RECEIVE_SIZE);
    connection->sent_ns = calloc((size_t)window, sizeof(uint64_t));
    connection->offset = pulling ? offset : 0;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(poll, EPOLL_CTL_ADD, connection->fd, &event);
}

static int by_value(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static double microseconds(double part) {
    return latency_count ? latencies[(uint64_t)((double)(latency_count - 1) * part)] / 10.0 : 0;
}

static double cpu_seconds(const struct rusage *usage) {
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

int main(int count, char **arguments) {
    if (count < 8) {
        fprintf(stderr, "load send|pull HOST PORT CONNECTIONS WINDOW BODY SECONDS [SUBSCRIPTION] [MAXOFFSET]\n");
        return 2;
    }
    pulling = !strcmp(arguments[1], "pull");
    int connections = atoi(arguments[4]);
    window = atoi(arguments[5]);
    double seconds = atof(arguments[7]);
    const char *subscription = count > 8 ? arguments[8] : "*";
    if (count > 9)
        max_offset = atol(arguments[9]);
    if (strcmp(subscription, "*"))
        offset_step = 2 * PULL_BATCH; /* every second message has the tag */
    make_request(atoi(arguments[6]), subscription);
    latencies = malloc(MOST_LATENCIES * sizeof *latencies);
    sequence = (uint64_t)getpid() % 1000 * 90000;

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[3]))};
    inet_pton(AF_INET, arguments[2], &address.sin_addr);
    int poll = epoll_create1(0);
    Connection *all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++)
        open_connection(all + i, &address, poll, i * max_offset / connections / 64 * 64);

    struct rusage usage_begin = {0}, usage_end;
    uint64_t begin = now_ns(), good_begin = 0, bytes_begin = 0, measured = 0;
    uint64_t end = begin + WARM_UP_NS + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < connections; i++) {
        append(all + i, window);
        flush(poll, all + i);
    }
    for (;;) {
        struct epoll_event events[64];
        int ready = epoll_wait(poll, events, 64, 100);
        uint64_t now = now_ns();
        if (!measured && now >= begin + WARM_UP_NS) {
            measured = now;
            good_begin = good;
            bytes_begin = bytes_in;
            latency_count = 0;
            getrusage(RUSAGE_SELF, &usage_begin);
        }
        if (now >= end)
            break;
        for (int i = 0; i < ready; i++) {
            Connection *connection = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                flush(poll, connection);
            int replies = events[i].events & EPOLLIN ? receive(connection) : 0;
            if (replies) {
                append(connection, replies);
                flush(poll, connection);
            }
        }
    }
    double lasted = (double)(now_ns() - measured) / 1e9;
    getrusage(RUSAGE_SELF, &usage_end);
    qsort(latencies, latency_count, sizeof *latencies, by_value);
    printf("{\"total\":%llu,\"bad\":%llu,\"seconds\":%.3f,\"rate\":%.0f,\"mb_per_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"load_cpu\":%.2f}\n",
           (unsigned long long)(good + bad), (unsigned long long)bad, lasted, (double)(good - good_begin) / lasted,
           (double)(bytes_in - bytes_begin) / lasted / 1e6, microseconds(0.5), microseconds(0.99),
           (cpu_seconds(&usage_end) - cpu_seconds(&usage_begin)) / lasted);
    return 0;
}
