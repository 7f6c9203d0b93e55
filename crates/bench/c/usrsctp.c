/*
 * One transfer over usrsctp, its packets in UDP over loopback: the least program that sends messages
 * of one size over one stream of one association, as usrsctp's own `tsctp` does.
 *
 *   usrsctp receive OWN_UDP_PORT PEER_UDP_PORT PACKET_BYTES
 *       prints "ready", takes one association, prints "BYTES NANOSECONDS" at its end: the time is
 *       that from the association's arrival to its last byte
 *   usrsctp send OWN_UDP_PORT PEER_UDP_PORT PACKET_BYTES MESSAGE_BYTES TOTAL_BYTES
 *
 * Both ends block in their socket calls; usrsctp has threads of its own for packets and timers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#define SCTP_PORT 5001

/* Buffers of a socket, as large as ours: the library's own 256 KiB make it slower. */
static const int BUFFER_BYTES = 1 << 20;

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

static struct sockaddr_in loopback(void)
{
	struct sockaddr_in address;
	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_port = htons(SCTP_PORT);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static void set_packet_bytes(struct socket *socket, uint32_t packet_bytes)
{
	struct sctp_paddrparams parameters;
	memset(&parameters, 0, sizeof(parameters));
	parameters.spp_address.ss_family = AF_INET;
	parameters.spp_flags = SPP_PMTUD_DISABLE;
	parameters.spp_pathmtu = packet_bytes;
	if (usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &parameters,
			       sizeof(parameters)) < 0)
		die("cannot set the packet size");
}

static struct socket *open_socket(uint16_t peer_udp_port, uint32_t packet_bytes)
{
	struct sctp_udpencaps encapsulation;
	struct socket *socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (socket == NULL)
		die("cannot open a socket");
	memset(&encapsulation, 0, sizeof(encapsulation));
	encapsulation.sue_address.ss_family = AF_INET;
	encapsulation.sue_port = htons(peer_udp_port);
	if (usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation,
			       sizeof(encapsulation)) < 0)
		die("cannot set the other end's UDP port");
	if (usrsctp_setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &BUFFER_BYTES, sizeof(BUFFER_BYTES)) < 0 ||
	    usrsctp_setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &BUFFER_BYTES, sizeof(BUFFER_BYTES)) < 0)
		die("cannot set the buffers");
	set_packet_bytes(socket, packet_bytes);
	return socket;
}

static void receive_all(struct socket *listener)
{
	static char buffer[1 << 17];
	struct sockaddr_in address = loopback();
	struct socket *socket;
	unsigned long long bytes = 0;
	long long started, last;

	if (usrsctp_bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("cannot bind");
	if (usrsctp_listen(listener, 1) < 0)
		die("cannot listen");
	puts("ready");
	fflush(stdout);
	socket = usrsctp_accept(listener, NULL, NULL);
	if (socket == NULL)
		die("cannot accept");
	started = last = now_ns();
	for (;;) {
		struct sctp_rcvinfo info;
		struct sockaddr_in from;
		socklen_t from_bytes = sizeof(from), info_bytes = sizeof(info);
		unsigned int kind = 0;
		int flags = 0;
		ssize_t got = usrsctp_recvv(socket, buffer, sizeof(buffer), (struct sockaddr *)&from,
					    &from_bytes, &info, &info_bytes, &kind, &flags);
		if (got < 0)
			die("cannot receive");
		if (got == 0)
			break;
		if (flags & MSG_NOTIFICATION)
			continue;
		bytes += (unsigned long long)got;
		last = now_ns();
	}
	printf("%llu %lld\n", bytes, last - started);
	fflush(stdout);
	usrsctp_close(socket);
}

static void send_all(struct socket *socket, size_t message_bytes, unsigned long long total)
{
	struct sockaddr_in address = loopback();
	char *message = malloc(message_bytes);

	if (message == NULL)
		die("no memory");
	memset(message, 'D', message_bytes);
	if (usrsctp_connect(socket, (struct sockaddr *)&address, sizeof(address)) < 0)
		die("cannot connect");
	while (total > 0) {
		size_t length = total < message_bytes ? (size_t)total : message_bytes;
		struct sctp_sndinfo info;
		ssize_t sent;
		memset(&info, 0, sizeof(info));
		sent = usrsctp_sendv(socket, message, length, NULL, 0, &info, sizeof(info),
				     SCTP_SENDV_SNDINFO, 0);
		if (sent < 0)
			die("cannot send");
		total -= (unsigned long long)sent;
	}
	free(message);
	usrsctp_shutdown(socket, SHUT_WR);
	/* Until the other end has everything and closes too. */
	for (;;) {
		char byte;
		struct sockaddr_in from;
		socklen_t from_bytes = sizeof(from), info_bytes = 0;
		unsigned int kind = 0;
		int flags = 0;
		if (usrsctp_recvv(socket, &byte, 1, (struct sockaddr *)&from, &from_bytes, NULL,
				  &info_bytes, &kind, &flags) <= 0)
			break;
	}
	usrsctp_close(socket);
}

int main(int count, char **arguments)
{
	struct socket *socket;
	int tries;

	if (count < 5 || (strcmp(arguments[1], "send") == 0 && count < 7)) {
		fprintf(stderr, "wrong arguments\n");
		return 2;
	}
	usrsctp_init((uint16_t)atoi(arguments[2]), NULL, NULL);
	usrsctp_sysctl_set_sctp_ecn_enable(0);
	usrsctp_sysctl_set_sctp_blackhole(2);
	socket = open_socket((uint16_t)atoi(arguments[3]), (uint32_t)atoi(arguments[4]));
	if (strcmp(arguments[1], "receive") == 0)
		receive_all(socket);
	else
		send_all(socket, strtoul(arguments[5], NULL, 10), strtoull(arguments[6], NULL, 10));
	usrsctp_close(socket);
	for (tries = 0; tries < 20 && usrsctp_finish() != 0; tries++)
		usleep(50000);
	return 0;
}
