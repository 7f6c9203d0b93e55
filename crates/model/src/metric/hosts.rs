//! Metrics of the cost to both hosts: CPU, memory, packets.

super::metrics! {
    CPU_SENDER_RATIO = "cpu_sender_ratio" [CoreRatio, Lower] "CPU, sender":
        "CPU time of the sending process, all threads, user and system, in its window (see `packets_sent`), over the transfer time without its warm-up; 100 % is one core.";
    CPU_SENDER_USER_RATIO = "cpu_sender_user_ratio" [CoreRatio, Lower] "CPU, sender, user":
        "Of it, user time.";
    CPU_SENDER_SYSTEM_RATIO = "cpu_sender_system_ratio" [CoreRatio, Lower] "CPU, sender, system":
        "Of it, system time.";
    CPU_RECEIVER_RATIO = "cpu_receiver_ratio" [CoreRatio, Lower] "CPU, receiver":
        "CPU time of the receiving process, all threads, user and system, in its window (see `packets_received`), over the transfer time without its warm-up; 100 % is one core.";
    CPU_RECEIVER_USER_RATIO = "cpu_receiver_user_ratio" [CoreRatio, Lower] "CPU, receiver, user":
        "Of it, user time.";
    CPU_RECEIVER_SYSTEM_RATIO = "cpu_receiver_system_ratio" [CoreRatio, Lower] "CPU, receiver, system":
        "Of it, system time.";
    CPU_HOST_RATIO = "cpu_host_ratio" [Ratio, Lower] "CPU, host"
        {12: Differences, PageColumn, Means, Order, Runs("CPU of the host"), Limit("host-cpu")}:
        "Time of all cores of the sender's host that was not idle in the sender's window (see `packets_sent`), over its length, the emulator and everything else included; 100 % is the whole host. Absent where time times cores is less than 100 ms, as the kernel counts in steps of 10 ms.";
    CPU_HOST_SOFTIRQ_RATIO = "cpu_host_softirq_ratio" [Ratio, Lower] "CPU, host, softirq":
        "Time in softirq of all cores of the same host in the same window, by the kernel's ticks, which miss much of what is short.";
    CPU_PATH_RATIO = "cpu_path_ratio" [CoreRatio, Neither] "CPU, emulator":
        "CPU time of the process that forwards the packets over the whole trial, idle probe and set-up included; 100 % is one core. Part of both hosts' network stacks runs on it: what an arriving packet causes, and with TCP the sending that an acknowledgement allows. Charged to no transport.";
    GOODPUT_PER_CORE_PERCENT_BPS = "goodput_per_core_percent_bps" [BitsPerSecond, Higher] "goodput per 1 % of a core"
        {13: Compared, Differences, Column("goodput per\n1 % of a\ncore"), Price("CPU time", "CPU time"), Sweeps,
            Means, Spread}:
        "Goodput over the CPU of both ends' processes in per cent of one core. What the kernel does for them elsewhere, in softirq or on the emulator's time, is not in it, and TCP has more of that than a transport in user space: see the host's and the emulator's CPU.";
    CPU_PER_BYTE_NS = "cpu_per_byte_ns" [NanosecondsPerByte, Lower] "CPU per byte"
        {11: Answer("CPU"), Runs("CPU"), Limit("cpu")}:
        "CPU time of both ends' processes over delivered bytes; what the kernel does for them elsewhere is not in it.";
    PEAK_MEMORY_SENDER_BYTES = "peak_memory_sender_bytes" [Bytes, Lower] "peak memory, sender"
        {17: Answer("memory"), Price("memory", "memory"), Limit("memory")}:
        "Largest resident set of the sending process, the part before the trial included.";
    PEAK_MEMORY_RECEIVER_BYTES = "peak_memory_receiver_bytes" [Bytes, Lower] "peak memory, receiver":
        "Largest resident set of the receiving process, the part before the trial included.";
    PACKETS_PER_SECOND = "packets_per_second" [PerSecond, Neither] "packets per second":
        "IP packets that left the sending host's interface in the sender's window (see `packets_sent`), over its length.";
    PACKETS_SENT = "packets_sent" [Count, Neither] "packets sent":
        "IP packets that left the sending host's interface in the sender's window: from its first connect call, where it listens from the arrival of the transfer's connection, and with a warm-up from its end, to the arrival of the acknowledgement or the deadline. The packets of the probe under load are in it; those of the idle probe are before it. Where both hosts send, the sender is the connecting host, in all metrics of a sender; what left the other one is `acknowledgement_packets`. The interface counts packets of all programs; over loopback, where those of both ends and of everybody else are among them, all counts of the interface are absent.";
    PACKETS_RECEIVED = "packets_received" [Count, Neither, Receiver] "packets received":
        "IP packets that the receiving host's interface got in the receiver's window: from the arrival of the transfer's connection, where it connects from its first connect call, and with a warm-up from its end, until everything that comes is delivered or the deadline has stopped the transfer. It begins and ends about a one-way delay beside the sender's, so that the two counts are not of the same packets.";
    MEAN_PACKET_BYTES = "mean_packet_bytes" [Bytes, Neither] "mean packet size":
        "Mean size of the IP packets of `packets_sent`.";
    ACKNOWLEDGEMENT_PACKETS = "acknowledgement_packets" [Count, Neither, Receiver] "packets back":
        "IP packets that left the receiving host's interface in the receiver's window (see `packets_received`).";
    INTERFACE_ERRORS = "interface_errors" [Count, Lower, Sum] "interface errors":
        "Receive and transmit errors on both hosts' interfaces, each in its end's window (see `packets_sent`, `packets_received`).";
    INTERFACE_DROPS = "interface_drops" [Count, Lower, Sum] "interface drops":
        "Receive and transmit drops on both hosts' interfaces, each in its end's window (see `packets_sent`, `packets_received`).";
    INTERFACE_COLLISIONS = "interface_collisions" [Count, Lower, Sum] "interface collisions":
        "Collisions on both hosts' interfaces, each in its end's window (see `packets_sent`, `packets_received`).";
    RECEIVED_ECT_PACKETS = "received_ect_packets" [Count, Neither, Receiver] "packets with ECT":
        "IP packets with ECT(0), ECT(1) or CE in their ECN field (RFC 3168) that arrived at the receiving host in the receiver's window (see `packets_received`): those whose sender asks for marks instead of drops. The kernel counts those of all sockets of the network namespace, on a network as it is those of other programs too.";
    RECEIVED_CE_PACKETS = "received_ce_packets" [Count, Neither, Receiver] "marked packets":
        "Of `received_ect_packets`, those with a mark of the path (CE): congestion experienced.";
    RECEIVE_BUFFER_ERRORS = "receive_buffer_errors" [Count, Lower, Receiver] "receive buffer errors"
        {20: Loss(5)}:
        "UDP datagrams that the receiving host dropped because the socket's buffer was full (RcvbufErrors), in the receiver's window (see `packets_received`); not loss on the path. The kernel counts those of all sockets of the network namespace, on a network as it is those of other programs too. Absent for TCP and SCTP of the kernel.";
}
