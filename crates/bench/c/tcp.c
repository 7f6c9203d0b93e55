/*
 * One transfer over TCP and loopback: the least program that writes and reads buffers of one size, by which one sees how
 * much of the time of a driver is the kernel's.
 *
 *   tcp receive MESSAGE_BYTES CONGESTION_CONTROL
 *       prints the port on which it listens, takes one connection, prints "BYTES NANOSECONDS" at its end: the time is that
 *       from the connection's arrival to its last byte
 *   tcp send PORT MESSAGE_BYTES CONGESTION_CONTROL TOTAL_BYTES
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static long long now_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int open_socket(const char *congestion_control)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("cannot open a socket");
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion_control, strlen(congestion_control)) < 0)
		die("cannot set the congestion control");
	return fd;
}

static void receive_all(int listener, char *buffer, size_t message_bytes)
{
	struct sockaddr_in address;
	socklen_t address_bytes = sizeof(address);
	unsigned long long bytes = 0;
	long long started, last;
	int fd;

	if (listen(listener, 1) < 0)
		die("cannot listen");
	if (getsockname(listener, (struct sockaddr *)&address, &address_bytes) < 0)
		die("cannot get the port");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		die("cannot accept");
	started = last = now_ns();
	for (;;) {
		ssize_t got = read(fd, buffer, message_bytes);
		if (got < 0)
			die("cannot receive");
		if (got == 0)
			break;
		bytes += (unsigned long long)got;
	}
	last = now_ns();
	printf("%llu %lld\n", bytes, last - started);
}

static void send_all(int fd, const char *port, char *buffer, size_t message_bytes, unsigned long long total)
{
	struct sockaddr_in address;
	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_port = htons((unsigned short)atoi(port));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memset(buffer, 'D', message_bytes);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("cannot connect");
	while (total > 0) {
		size_t length = total < message_bytes ? (size_t)total : message_bytes;
		ssize_t sent = write(fd, buffer, length);
		if (sent < 0)
			die("cannot send");
		total -= (unsigned long long)sent;
	}
	shutdown(fd, SHUT_WR);
	/* Until the other end has everything and closes too. */
	if (read(fd, buffer, 1) < 0)
		die("cannot close");
}

int main(int count, char **arguments)
{
	int sends = count == 6 && strcmp(arguments[1], "send") == 0;
	size_t message_bytes;
	char *buffer;
	int fd;

	if (!sends && !(count == 4 && strcmp(arguments[1], "receive") == 0)) {
		fprintf(stderr, "wrong arguments\n");
		return 2;
	}
	message_bytes = strtoul(arguments[2 + sends], NULL, 10);
	buffer = malloc(message_bytes);
	if (buffer == NULL)
		die("no memory");
	fd = open_socket(arguments[3 + sends]);
	if (sends)
		send_all(fd, arguments[2], buffer, message_bytes, strtoull(arguments[5], NULL, 10));
	else
		receive_all(fd, buffer, message_bytes);
	return 0;
}
