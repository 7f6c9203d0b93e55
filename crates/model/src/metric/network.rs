//! Metrics of the network, from the transport's stack and the emulated path.

super::metrics! {
    RETRANSMITTED_PACKETS = "retransmitted_packets" [Count, Lower, SenderOrSum] "retransmissions":
        "Segments (TCP) or packets (QUIC: packets declared lost) that the sender had to send again, from the beginning of the connection to the end of the transfer, the warm-up included.";
    RETRANSMIT_RATIO = "retransmit_ratio" [Ratio, Lower] "retransmit ratio"
        {14: Answer("retransmits"), Price("retransmitted packets", "retransmissions"), Loss(10),
            Runs("retransmissions"), Limit("retransmissions")}:
        "Retransmissions over packets that the transport sent, as it counts them from the beginning of the connection to the end of the transfer. It is not the path's loss. Of a script, of the host that sends most.";
    CONGESTION_WINDOW_MEAN_BYTES = "congestion_window_mean_bytes" [Bytes, Neither] "congestion window, mean":
        "Mean of the stored samples, each counted once (series `congestion_window_bytes`, which begins with the transfer, or after its warm-up); of an external driver what its program says.";
    CONGESTION_WINDOW_MAX_BYTES = "congestion_window_max_bytes" [Bytes, Neither] "congestion window, maximum":
        "Maximum of the stored samples (series `congestion_window_bytes`); of an external driver what its program says.";
    SMOOTHED_RTT_MEAN_NS = "smoothed_rtt_mean_ns" [Nanoseconds, Lower] "smoothed RTT, mean":
        "Mean of the stored samples of the sender's smoothed_rtt, each counted once (series `smoothed_rtt_ns`, which begins with the transfer, or after its warm-up; RFC 9002, TCP: tcpi_rtt); of several connections or subflows at once the smallest; of an external driver what its program says.";
    SMOOTHED_RTT_P50_NS = "smoothed_rtt_p50_ns" [Nanoseconds, Lower] "smoothed RTT, median":
        "Median of the same samples; of an even number the mean of the middle two.";
    SMOOTHED_RTT_LAST_NS = "smoothed_rtt_last_ns" [Nanoseconds, Lower] "smoothed RTT at the end":
        "The last of the same samples; of an external driver what its program says of the end of the transfer.";
    MIN_RTT_NS = "min_rtt_ns" [Nanoseconds, Lower] "minimum RTT":
        "The sender's own min_rtt at the end of the transfer, since the connection began.";
    BYTES_IN_FLIGHT_MAX_BYTES = "bytes_in_flight_max_bytes" [Bytes, Neither] "bytes in flight, maximum":
        "Maximum of the stored samples (series `bytes_in_flight_bytes`); of an external driver what its program says.";
    RETRANSMISSION_TIMEOUTS = "retransmission_timeouts" [Count, Lower] "retransmission time-outs":
        "Expiries of the sender's retransmission timer (RFC 6298), recurring ones included, as TCP of Linux 6.7 and later counts them (tcpi_total_rto). Of several connections the largest.";
    TIMEOUT_RECOVERY_TIME_NS = "timeout_recovery_time_ns" [Nanoseconds, Lower] "recovery from time-outs":
        "Time that the sender was recovering from retransmission time-outs, from each expiry until what was under way then is acknowledged (tcpi_total_rto_time, whole milliseconds). Of several connections the largest.";
    FAIL_OVER_TIME_NS = "fail_over_time_ns" [Nanoseconds, Lower] "time to fail over":
        "From the moment when the primary path of a multihomed association was taken down, at the receiver, to the first data after it that reached its application over another path (RFC 9260 §6.4.1 and §8.2, RFC 7829). Only of trials in which the driver takes the path down.";
    PATH_PACKETS = "path_packets" [Count, Neither] "packets into the path":
        "IP packets that the emulated path was offered in the whole trial, sender to receiver: from the moment when its condition is set until both ends have reported, so that the idle probe, the set-up of every connection, the probe under load and closing are in it. Absent with `offloads = \"on\"`, whose counters count packets of the wire and packets of many segments.";
    PATH_DROPS = "path_drops" [Count, Neither] "path drops":
        "IP packets that the path lost at random or that its full queue dropped, sender to receiver, in the whole trial (see `path_packets`); instead of `path_loss_drops` and `path_queue_drops` where netem at the ends, which counts both as one, has a rate and a loss.";
    PATH_OTHER_DROPS = "path_other_drops" [Count, Neither] "path drops: other":
        "IP packets dropped for another cause (larger than the MTU, refused by the receiving interface, or before the emulator could take them because it was overrun), sender to receiver, in the whole trial (see `path_packets`).";
    PATH_LOSS_RATIO = "path_loss_ratio" [Ratio, Neither] "path loss"
        {20: Loss(6)}:
        "Packets that the path lost on the wire, at random, in bursts or by list, over packets into the path, in the whole trial (see `path_packets`), sender to receiver.";
    PATH_REVERSE_PACKETS = "path_reverse_packets" [Count, Neither] "packets into the path, reverse":
        "IP packets that the emulated path was offered in the whole trial (see `path_packets`), receiver to sender. Absent with `offloads = \"on\"`.";
    PATH_REVERSE_DROPS = "path_reverse_drops" [Count, Neither] "path drops, reverse":
        "IP packets that the path lost at random or that its full queue dropped, receiver to sender, in the whole trial (see `path_packets`); instead of `path_reverse_loss_drops` and `path_reverse_queue_drops` where netem at the ends, which counts both as one, has a rate and a loss.";
    PATH_QUEUE_MAX_BYTES = "path_queue_max_bytes" [Bytes, Neither] "path queue, maximum":
        "Longest that the bottleneck's queue was in the whole trial (see `path_packets`), sender to receiver.";
}
