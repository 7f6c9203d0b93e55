//! Metrics of the workloads and their probes.

super::metrics! {
    GOODPUT_BPS = "goodput_bps" [BitsPerSecond, Higher] "goodput"
        {1: Compared, Differences, Column("goodput"), Answer("goodput"), Spread, Order, Runs("goodput"),
            Limit("goodput")}:
        "Delivered application bits over the time from the first connect call to the arrival of the receiver's acknowledgement; where the listening host sends, to the delivery of the last byte. Retransmitted bits do not count. After a warm-up: those delivered after the last delivery in it, over the time from that delivery to the last one (`goodput_time_ns`). Of several flows, or both directions, the sum.";
    GOODPUT_FORWARD_BPS = "goodput_forward_bps" [BitsPerSecond, Higher] "goodput from the connecting host":
        "Of a transfer in both directions at once, whose `goodput_bps` is the sum: the part that the connecting host sent, over the same time.";
    GOODPUT_REVERSE_BPS = "goodput_reverse_bps" [BitsPerSecond, Higher] "goodput to the connecting host":
        "Of the same transfer: the part that the listening host sent.";
    RECEIVER_GOODPUT_BPS = "receiver_goodput_bps" [BitsPerSecond, Higher, ReceiverOrSum] "goodput at the receiver":
        "Delivered application bits over the time from the first to the last delivery at the receiver; the bytes of the first delivery, which took no time in that interval, are left out, and a warm-up is not. Absent if there was one delivery only. Of both directions at once the sum.";
    TRANSFER_TIME_NS = "transfer_time_ns" [Nanoseconds, Lower] "transfer time":
        "From the first connect call to the arrival of the receiver's acknowledgement, where the listening host sends to the delivery of the last byte, of a script to the end of its last flow, or to the deadline. A transfer by size that the deadline stopped is shown and compared by the time of the whole, at its rate until then; exports have the measured one. A warm-up is in it.";
    CAPTURED_TRANSFER_TIME_NS = "captured_transfer_time_ns" [Nanoseconds, Lower] "transfer time by the capture":
        "From the moment at which the path took in the first CONN of the transfer from the connecting host to the moment at which it gave that host the receiver's RCVD, as both stand in the trial's capture: what Wireshark shows for a capture at the connecting host. Of captured bulk transfers of `udp` with `frame = \"conn\"` and of `udp-reliable`. With `tcp` from the first SYN of the connection that carries the most data to the arrival of the segment that completes the receiver's acknowledgement.";
    CAPTURED_GOODPUT_BPS = "captured_goodput_bps" [BitsPerSecond, Higher] "goodput by the capture":
        "Bits of the transfer over `captured_transfer_time_ns`. Absent where not everything that was sent was delivered: that of a transfer with losses is no figure of a whole one.";
    CAPTURED_BYTES = "captured_bytes" [Bytes, Neither] "bytes by the capture":
        "Bytes of the IP packets that the path brought to the receiving host in the whole trial, as they stand in its capture: with headers, openings, retransmissions and the packets of the probe, where `bytes_delivered` are those of the application. Of transfers in both directions the sum. A conversation of Wireshark has the frames of an Ethernet, 14 bytes more for each packet.";
    WHOLE_TRANSFER_RATIO = "whole_transfer_ratio" [Ratio, Higher] "transfers that arrived whole":
        "1 for a transfer of which every byte was delivered before the deadline, 0 for any other: the mean is the share of whole transfers, with its exact interval (Clopper and Pearson 1934). Of bulk transfers over transports that do not retransmit.";
    GOODPUT_SHARE_RATIO = "goodput_share_ratio" [Ratio, Neither] "share of the goodput"
        {2: Column("share"), Answer("share"), Sweeps, Runs("share"), Limit("share")}:
        "Of a flow of a competition: bytes that its receiver's application got over those of all flows, in the time in which all of them sent and none was in its warm-up. From the samples of `goodput_bps`. That of a flow that timed out before it sent anything is 0.";
    FAIR_SHARE_RATIO = "fair_share_ratio" [Ratio, Neither] "fair share of the goodput":
        "Of a flow of a competition: its max-min fair part of what all flows got over the same time. A flow whose transport has the option `rate` below the equal part has that rate; the others divide the rest equally. Without such a flow 1/n for each of n.";
    FAIRNESS_RATIO = "fairness_ratio" [Ratio, Higher] "Jain's fairness index"
        {2: Column("fairness"), Runs("Jain's index"), Limit("fairness")}:
        "Of all flows of a competition over the same time, with x the bytes of each over its max-min fair part (`fair_share_ratio`): the square of the sum of x over the number of flows and the sum of the squares of x (RFC 5166, 2.4). 1 where each got its fair part, 1/n where one of n got all. The same for each flow.";
    COMPETING_GOODPUT_BPS = "competing_goodput_bps" [BitsPerSecond, Higher] "goodput beside all others":
        "Of a flow of a competition: bits that its receiver's application got over the same time, in which all flows sent.";
    COMPETING_TIME_NS = "competing_time_ns" [Nanoseconds, Neither] "time of all flows":
        "Length of the time in which all flows of a competition sent and none was in its warm-up.";
    FLOW_START_NS = "flow_start_ns" [Nanoseconds, Neither] "start of the flow":
        "Of a flow of a competition: from the first connect call of all flows to its own. Each flow has an offset from a uniform distribution over the path's round-trip delay, drawn for each round, beside the start that the study asks for. The samples of all flows count from that first call.";
    FLOW_QUEUE_DROPS = "flow_queue_drops" [Count, Lower] "packets of the flow that the queue dropped"
        {20: Loss(9)}:
        "Of a flow of a competition: packets of it, in both directions, that a queue of the path dropped, full or by its discipline. Absent where the path does not tell flows apart: netem's does not.";
    FLOW_MARKED = "flow_marked_packets" [Count, Neither] "packets of the flow that the queue marked":
        "Of a flow of a competition: packets of it, in both directions, that a queue of the path marked with CE. Absent where the path does not tell flows apart.";
    HARM_RATIO = "harm_ratio" [Ratio, Lower] "harm by the others"
        {2: Runs("harm"), Limit("harm")}:
        "Of a flow of a competition: the part of the goodput of its transport alone, with the same work in the same round, that the flow does not get beside the others (Ware et al., HotNets 2019); 0 where it gets no less, 1 for a flow that timed out. Reports derive it from both trials: exports of trials do not have it. Absent where the transport does not run alone.";
    CONVERGENCE_TIME_LAST_NS = "convergence_time_last_ns" [Nanoseconds, Lower] "convergence time after the last start"
        {22: Runs("convergence time"), Limit("convergence")}:
        "Of a competition: from the connect call of its last flow to the beginning of the first three seconds in each of which every flow got its fair share (`fair_share_ratio`, of that second), give or take a tenth of that. Seconds are counted from the first connect call. Absent where that did not happen before a flow ended.";
    WARM_UP_NS = "warm_up_ns" [Nanoseconds, Neither] "warm-up":
        "Time from the beginning of the transfer that goodput and CPU time leave out, as the study asks.";
    WARM_UP_BYTES = "warm_up_bytes" [Bytes, Neither, SenderOrSum] "bytes in the warm-up":
        "Bytes delivered during the warm-up: they count as delivered, but not towards goodput.";
    GOODPUT_TIME_NS = "goodput_time_ns" [Nanoseconds, Neither, Receiver] "time of the goodput":
        "Of a transfer with a warm-up: from the last delivery at the receiver before the end of the warm-up to the last one of all. The goodput counts the bytes that came after the first of the two, which the path carried in this time. Absent where nothing came in the warm-up, and for both directions at once, of which each has its own.";
    SET_UP_TIME_MEAN_NS = "set_up_time_mean_ns" [Nanoseconds, Lower] "set-up time, mean"
        {15: Answer("set-up"), Price("set-up time", "set-up time"), Runs("set-up time"), Limit("set-up")}:
        "From the connect call until the connection can carry data: TCP's handshake, with TLS's where it is used; QUIC's handshake; for UDP the exchange that opens the flow. Mean over the connections; of one, its time.";
    SET_UP_TIME_P50_NS = "set_up_time_p50_ns" [Nanoseconds, Lower] "set-up time, median":
        "Median over the measured connections, where there are several; `set_up_time_mean_ns` is their mean then. Percentiles are as exact as `message_delay_p50_ns`.";
    SET_UP_TIME_P95_NS = "set_up_time_p95_ns" [Nanoseconds, Lower] "set-up time, 95th percentile":
        "95th percentile of the same connections.";
    SET_UP_TIME_P99_NS = "set_up_time_p99_ns" [Nanoseconds, Lower] "set-up time, 99th percentile":
        "99th percentile of the same connections, of 100 or more.";
    CONNECTIONS_COMPLETED = "connections_completed" [Count, Higher] "connections completed":
        "Measured connections that had their whole answer. One connection before them is not measured: it brings the ticket where one is needed, and warms the caches of both ends.";
    CONNECTIONS_FAILED = "connections_failed" [Count, Lower] "connections failed":
        "Connections that broke, or were refused, before their whole answer was there; they are in no distribution. The one that the deadline stops is not among them.";
    ROUND_TRIP_DELAY_IDLE_MEAN_NS = "round_trip_delay_idle_mean_ns" [Nanoseconds, Lower] "round-trip delay, idle, mean":
        "Mean over the messages that were sent and sent back one at a time before the transfer, on a connection of their own.";
    ROUND_TRIP_DELAY_IDLE_P50_NS = "round_trip_delay_idle_p50_ns" [Nanoseconds, Lower] "round-trip delay, idle, median":
        "Median of the same messages; of an even number the mean of the middle two.";
    ROUND_TRIP_DELAY_IDLE_P95_NS = "round_trip_delay_idle_p95_ns" [Nanoseconds, Lower] "round-trip delay, idle, 95th percentile":
        "95th percentile of the same messages; of fewer than 20 their maximum.";
    ROUND_TRIP_DELAY_IDLE_P99_NS = "round_trip_delay_idle_p99_ns" [Nanoseconds, Lower] "round-trip delay, idle, 99th percentile":
        "99th percentile of the same messages, of 100 or more.";
    ROUND_TRIP_DELAY_IDLE_MAX_NS = "round_trip_delay_idle_max_ns" [Nanoseconds, Lower] "round-trip delay, idle, maximum":
        "Maximum of the same messages.";
    ROUND_TRIP_DELAY_MEAN_NS = "round_trip_delay_mean_ns" [Nanoseconds, Lower] "delay under load, mean":
        "Mean over the messages that are sent at an interval, on a connection of their own, and sent back: from the scheduled departure of each to its answer. Those count whose scheduled departure lies in the time of goodput: from the moment when the transfer's first connection can carry data, and from the end of the warm-up, to the arrival of the acknowledgement or the deadline; their answers may come later. A message or an answer that is lost and sent again by the transport takes longer than the path does, which a mean shows more than a median: see `probe_packets_retransmitted`.";
    ROUND_TRIP_DELAY_P50_NS = "round_trip_delay_p50_ns" [Nanoseconds, Lower] "delay under load, median"
        {7: Compared, Differences, Column("delay under\nload,\nmedian"), Answer("loaded RTT"),
            Price("delay under load", "delay"), Sweeps, Means, Spread, Order, Runs("delay"), Limit("delay")}:
        "Median of the same messages; of an even number the mean of the middle two.";
    ROUND_TRIP_DELAY_P95_NS = "round_trip_delay_p95_ns" [Nanoseconds, Lower] "delay under load, 95th percentile"
        {8: Column("its p95"), Beside(id::ROUND_TRIP_DELAY_P50_NS)}:
        "95th percentile of the same messages.";
    ROUND_TRIP_DELAY_P99_NS = "round_trip_delay_p99_ns" [Nanoseconds, Lower] "delay under load, 99th percentile":
        "99th percentile of the same messages, of 100 or more.";
    ROUND_TRIP_DELAY_MAX_NS = "round_trip_delay_max_ns" [Nanoseconds, Lower] "delay under load, maximum":
        "Maximum of the same messages.";
    STREAM_ROUND_TRIP_DELAY_MEAN_NS = "stream_round_trip_delay_mean_ns" [Nanoseconds, Lower] "delay under load, on a stream, mean":
        "Mean over the probe messages on a stream of the transfer's own connection (`probe.placement = \"stream\"`), which wait for its congestion window, too. Counted as in `round_trip_delay_mean_ns`.";
    STREAM_ROUND_TRIP_DELAY_P50_NS = "stream_round_trip_delay_p50_ns" [Nanoseconds, Lower] "delay under load, on a stream, median"
        {9: Compared, Column("delay on a\nstream,\nmedian"), Answer("stream RTT"),
            Price("delay on a stream", "delay"), Runs("delay on a stream"), Limit("delay")}:
        "Median of the same messages; of an even number the mean of the middle two.";
    STREAM_ROUND_TRIP_DELAY_P95_NS = "stream_round_trip_delay_p95_ns" [Nanoseconds, Lower] "delay under load, on a stream, 95th percentile"
        {10: Column("its p95"), Beside(id::STREAM_ROUND_TRIP_DELAY_P50_NS)}:
        "95th percentile of the same messages.";
    STREAM_ROUND_TRIP_DELAY_P99_NS = "stream_round_trip_delay_p99_ns" [Nanoseconds, Lower] "delay under load, on a stream, 99th percentile":
        "99th percentile of the same messages, of 100 or more.";
    STREAM_ROUND_TRIP_DELAY_MAX_NS = "stream_round_trip_delay_max_ns" [Nanoseconds, Lower] "delay under load, on a stream, maximum":
        "Maximum of the same messages.";
    PROBE_MESSAGES_SENT = "probe_messages_sent" [Count, Neither] "probe messages sent":
        "Messages that measure the round-trip delay under load, with a scheduled departure in the time of goodput (see `round_trip_delay_mean_ns`); those are among them that the transport did not take in time.";
    PROBE_MESSAGES_LOST = "probe_messages_lost" [Count, Lower] "probe messages without answer":
        "Of these, the ones without an answer. After the end of the transfer answers are waited for as long as the path can hold a message and its answer, and 250 ms more for a retransmission.";
    PROBE_PACKETS_RETRANSMITTED = "probe_packets_retransmitted" [Count, Lower, SumOfBoth] "probe packets sent again":
        "Packets of the probe's own connection that its two ends had to send again since the beginning of the time of goodput (see `round_trip_delay_mean_ns`), where their stack counts them: TCP's retransmissions, packets that QUIC declares lost. What they carried arrived a round trip later or more. 0 where the transport sends nothing again. Absent where one end does not know it, as the fact `probe.packets_retransmitted` says: where a stack or an external program does not count, and for a probe on a stream of the transfer's connection, whose packets carry the transfer as well and are counted together.";
    SERIES_TIME_NS = "series_time_ns" [Nanoseconds, Neither] "time in the series":
        "Of a series (`every`): from the beginning of its first round to the beginning of this trial, by the clock of the run, which is virtual in virtual time.";
    SERIES_PERIOD = "series_period" [Count, Neither] "period of the series":
        "Number of the period of `every` in which the trial's round began, from 0. Above the number of the round by the periods that were missed.";
    SERIES_LATENESS_NS = "series_lateness_ns" [Nanoseconds, Lower] "lateness in the series":
        "From the beginning of that period to the beginning of the trial's round, or of the part of it that was left after an interruption.";
    BYTES_SENT = "bytes_sent" [Bytes, Neither, SenderOrSum] "bytes sent":
        "Application bytes handed to the transport.";
    BYTES_DELIVERED = "bytes_delivered" [Bytes, Higher, ReceiverOrSum] "bytes delivered":
        "Application bytes that the receiver's application got, each counted once.";
    MESSAGES_SENT = "messages_sent" [Count, Neither, SenderOrSum] "messages sent":
        "Messages handed to the transport.";
    MESSAGES_DELIVERED = "messages_delivered" [Count, Higher, ReceiverOrSum] "messages delivered":
        "Distinct messages that the receiver's application got whole.";
    MESSAGES_LOST = "messages_lost" [Count, Lower, SenderOrSum] "messages lost":
        "Messages sent that never arrived. What was under way at the deadline is waited for, as long as the path can hold it, and is not lost if it arrives then, though it was not delivered within the deadline; nor is what the sender's transport still held then and gave up (fact `messages_given_up.sender`); absent if the path can hold it longer than 5 s, and for a reliable transport that the deadline stopped.";
    MESSAGE_LOSS_RATIO = "message_loss_ratio" [Ratio, Lower] "message loss"
        {16: Column("message\nloss"), Answer("lost"), Loss(1), Sweeps}:
        "Messages lost over messages sent.";
    MESSAGE_LOSS_FORWARD_RATIO = "message_loss_forward_ratio" [Ratio, Lower] "message loss from the connecting host":
        "Of messages in both directions at once, of which `message_loss_ratio` counts all: loss of those that the connecting host sent.";
    MESSAGE_LOSS_REVERSE_RATIO = "message_loss_reverse_ratio" [Ratio, Lower] "message loss to the connecting host":
        "Of the same messages: loss of those that the listening host sent.";
    MESSAGES_DUPLICATED = "messages_duplicated" [Count, Lower, ReceiverOrSum] "messages duplicated"
        {20: Loss(2)}:
        "Copies of messages already delivered.";
    MESSAGES_REORDERED = "messages_reordered" [Count, Lower, ReceiverOrSum] "messages reordered"
        {20: Loss(3)}:
        "Messages that arrived after one with a higher sequence number (RFC 4737, Type-P-Reordered).";
    MESSAGES_CORRUPTED = "messages_corrupted" [Count, Lower, ReceiverOrSum] "messages corrupted"
        {20: Loss(4)}:
        "Messages whose check failed at the receiver: the header is checked whole, the content at the beginning and the end of every piece that arrives.";
    MESSAGE_DELAY_MEAN_NS = "message_delay_mean_ns" [Nanoseconds, Lower] "message delay, mean":
        "Mean delay of the workload's own messages. Stop-and-wait: from handing a message to the transport to the arrival of the other application's acknowledgement. Request-response: from a request's departure to the arrival of its whole answer, where requests leave at a rate from the scheduled departure, so that waiting counts. Multi-stream: from a message's scheduled departure to its whole arrival; between hosts with a clock each as `one_way_delay_p50_ns` is. What was not answered in time has none.";
    MESSAGE_DELAY_P50_NS = "message_delay_p50_ns" [Nanoseconds, Lower] "message delay, median":
        "Median of the same messages; of an even number the mean of the middle two. Of at most 10 000 messages it is exact; of more it comes from a histogram of three significant digits (HdrHistogram), interpolated within the bucket in which the rank lies, and so to less than 0.1 %.";
    MESSAGE_DELAY_P95_NS = "message_delay_p95_ns" [Nanoseconds, Lower] "message delay, 95th percentile"
        {3: Compared, Column("message\ndelay, 95th\npercentile"), Answer("message p95"), Spread, Limit("delay")}:
        "95th percentile of the same messages, as exact as the median.";
    MESSAGE_DELAY_P99_NS = "message_delay_p99_ns" [Nanoseconds, Lower] "message delay, 99th percentile":
        "99th percentile of the same messages, of 100 or more, as exact as the median.";
    MESSAGE_DELAY_MAX_NS = "message_delay_max_ns" [Nanoseconds, Lower] "message delay, maximum":
        "Maximum of the same messages.";
    MESSAGES_UNACKNOWLEDGED = "messages_unacknowledged" [Count, Lower] "messages without acknowledgement":
        "Stop-and-wait: messages whose acknowledgement had not come within the time-out, so that the next one left. The message or its acknowledgement was lost, or late.";
    LATE_ANSWERS = "late_answers" [Count, Lower] "late answers":
        "Acknowledgements and answers that came after the time-out of their message or request; they are told apart by their sequence numbers and are in no delay.";
    REQUESTS_PER_SECOND = "requests_per_second" [PerSecond, Higher] "requests per second"
        {2: Compared, Column("requests\nper second"), Answer("requests")}:
        "Answered requests over the time from the first departure, where requests leave at a rate the first scheduled one, to the arrival of the last answer.";
    REQUEST_RATE_RATIO = "request_rate_ratio" [Ratio, Higher] "request rate achieved":
        "Rate at which requests left over the rate that was asked for, between the first departure and the last. Below 1 the sender was held up by its transport or its host. Absent where an answer lets the next request leave.";
    MESSAGE_RATE_RATIO = "message_rate_ratio" [Ratio, Higher, SenderOrLeast] "message rate achieved":
        "Multi-stream, and UDP with the option `rate`: rate at which messages were handed to the transport over the rate that was asked for, between the first one and the last; of several flows, also in both directions, that of the slowest. Below 1 the sender was held up by its transport or its host.";
    REQUESTS_UNANSWERED = "requests_unanswered" [Count, Lower] "requests without answer":
        "Requests that left and had no answer within the time-out, or by the end of the trial.";
    STEP_TIME_MEAN_NS = "step_time_mean_ns" [Nanoseconds, Lower] "step time, mean":
        "Script: mean over the measured steps of the time from the beginning of a step to the arrival of its last byte, at the client. The first step of a scheduled repetition begins at its moment of the schedule, so that waiting counts. The set-up of a connection is in no step. Steps that had not ended at the deadline are left out.";
    STEP_TIME_P50_NS = "step_time_p50_ns" [Nanoseconds, Lower] "step time, median":
        "Median of the same steps, as exact as `message_delay_p50_ns`.";
    STEP_TIME_P95_NS = "step_time_p95_ns" [Nanoseconds, Lower] "step time, 95th percentile"
        {6: Answer("step p95")}:
        "95th percentile of the same steps, as exact as the median.";
    STEP_TIME_P99_NS = "step_time_p99_ns" [Nanoseconds, Lower] "step time, 99th percentile":
        "99th percentile of the same steps, of 100 or more, as exact as the median.";
    STEP_TIME_MAX_NS = "step_time_max_ns" [Nanoseconds, Lower] "step time, maximum":
        "Maximum of the same steps.";
    STEPS_MEASURED = "steps_measured" [Count, Higher] "steps measured":
        "Script: measured steps that came to their end.";
    STEPS_LOST = "steps_lost" [Count, Lower] "steps lost":
        "Script over messages that can be lost: measured steps of which a message had not come within the time-out, or before a later one. They are in no step time.";
    INTERARRIVAL_JITTER_NS = "interarrival_jitter_ns" [Nanoseconds, Lower, Receiver] "interarrival jitter":
        "Smoothed interarrival jitter of the messages (RFC 3550, 6.4.1), for transports of messages, as it is after the last one; of several flows the mean of theirs. Of both directions at once each has its own instead.";
    INTERARRIVAL_JITTER_FORWARD_NS = "interarrival_jitter_forward_ns" [Nanoseconds, Lower] "interarrival jitter from the connecting host":
        "Of messages in both directions at once: smoothed interarrival jitter of those that the connecting host sent (RFC 3550, 6.4.1).";
    INTERARRIVAL_JITTER_REVERSE_NS = "interarrival_jitter_reverse_ns" [Nanoseconds, Lower] "interarrival jitter to the connecting host":
        "Of the same messages: that of those that the listening host sent.";
    ONE_WAY_DELAY_MEAN_NS = "one_way_delay_mean_ns" [Nanoseconds, Lower, Receiver] "one-way delay, mean":
        "Mean one-way delay of the messages (RFC 7679); of both directions at once, of those that the connecting host sent. Where each host has a clock of its own it and its percentiles are corrected by their offset, whose error is at most `clock_offset_bound_ns`, and left out if that is more than a tenth of the median.";
    ONE_WAY_DELAY_P50_NS = "one_way_delay_p50_ns" [Nanoseconds, Lower, Receiver] "one-way delay, median":
        "Median of the same messages, as exact as `message_delay_p50_ns`.";
    ONE_WAY_DELAY_P95_NS = "one_way_delay_p95_ns" [Nanoseconds, Lower, Receiver] "one-way delay, 95th percentile":
        "95th percentile of the same messages, as exact as the median.";
    ONE_WAY_DELAY_P99_NS = "one_way_delay_p99_ns" [Nanoseconds, Lower, Receiver] "one-way delay, 99th percentile":
        "99th percentile of the same messages, of 100 or more, as exact as the median.";
    ONE_WAY_DELAY_MAX_NS = "one_way_delay_max_ns" [Nanoseconds, Lower, Receiver] "one-way delay, maximum":
        "Maximum of the same messages.";
    CLOCK_OFFSET_BOUND_NS = "clock_offset_bound_ns" [Nanoseconds, Lower] "bound of the clocks' offset":
        "Largest error of the offset between the hosts' monotonic clocks at any moment of the trial, and with it of one-way delays (`one_way_delay_p50_ns` and the like, and `message_delay_p50_ns` and the like of multi-stream): half of the interval that exchanges of the time before, during and after the trial leave, as no message arrives before it was sent (the fact `clock.method` says over what). Absent where both ends share one clock.";
    CLOCK_DRIFT_RATIO = "clock_drift_ratio" [Ratio, Neither] "drift of the clocks":
        "Mean drift of the listening host's monotonic clock against the connecting host's from before the trial to after it, in seconds per second: the middle of the interval that the same exchanges leave.";
    CLOCK_DRIFT_BOUND_RATIO = "clock_drift_bound_ratio" [Ratio, Neither] "bound of the clocks' drift":
        "Largest error of `clock_drift_ratio`: half of its interval.";
    TIME_TO_FIRST_BYTE_MEAN_NS = "time_to_first_byte_mean_ns" [Nanoseconds, Lower] "time to first byte, mean":
        "Mean over the measured connections of the time from the connect call to the arrival of the answer's first byte.";
    TIME_TO_FIRST_BYTE_P50_NS = "time_to_first_byte_p50_ns" [Nanoseconds, Lower] "time to first byte, median"
        {4: Compared, Column("time to\nfirst byte,\nmedian"), Answer("first byte"), Means}:
        "Median of the same connections. Percentiles are as exact as `message_delay_p50_ns`.";
    TIME_TO_FIRST_BYTE_P95_NS = "time_to_first_byte_p95_ns" [Nanoseconds, Lower] "time to first byte, 95th percentile":
        "95th percentile of the same connections.";
    TIME_TO_FIRST_BYTE_P99_NS = "time_to_first_byte_p99_ns" [Nanoseconds, Lower] "time to first byte, 99th percentile":
        "99th percentile of the same connections, of 100 or more.";
    TIME_TO_FIRST_BYTE_MAX_NS = "time_to_first_byte_max_ns" [Nanoseconds, Lower] "time to first byte, maximum":
        "Maximum of the same connections.";
    TIME_TO_COMPLETION_MEAN_NS = "time_to_completion_mean_ns" [Nanoseconds, Lower] "time to completion, mean":
        "Mean over the measured connections of the time from the connect call to the arrival of the whole answer.";
    TIME_TO_COMPLETION_P50_NS = "time_to_completion_p50_ns" [Nanoseconds, Lower] "time to completion, median"
        {5: Compared, Column("time to\ncompletion,\nmedian"), Answer("completion"), Spread}:
        "Median of the same connections. Percentiles are as exact as `message_delay_p50_ns`.";
    TIME_TO_COMPLETION_P95_NS = "time_to_completion_p95_ns" [Nanoseconds, Lower] "time to completion, 95th percentile":
        "95th percentile of the same connections.";
    TIME_TO_COMPLETION_P99_NS = "time_to_completion_p99_ns" [Nanoseconds, Lower] "time to completion, 99th percentile":
        "99th percentile of the same connections, of 100 or more.";
    TIME_TO_COMPLETION_MAX_NS = "time_to_completion_max_ns" [Nanoseconds, Lower] "time to completion, maximum":
        "Maximum of the same connections.";
    SETTLING_TIME_MEAN_NS = "settling_time_mean_ns" [Nanoseconds, Lower] "settling time after a step, mean":
        "Mean over the steps of the path's schedule after which the rate of arrivals settled: time from the step until the last sample of what the receiver's interface gets (received_bps, running median of three) that lies more than 10 % away from the final rate, which is the mean of the second half of the time until the next step. Arrivals and not goodput, because in-order delivery stops after a lost packet while the link stays full. To the accuracy of the sample interval. Sources: response to changes, RFC 5166 section 2.2.1; settling time as in control engineering (Ogata, Modern Control Engineering, 5-3), with a band of 10 %.";
    SETTLING_TIME_P50_NS = "settling_time_p50_ns" [Nanoseconds, Lower] "settling time after a step, median":
        "Median over the same steps.";
    RECEIVED_PEAK_BPS = "received_peak_bps" [BitsPerSecond, Higher] "peak rate of arrivals":
        "Bulk transfers: largest mean rate of any second of what the receiver's interface gets (received_bps): bits of IP packets, with headers and retransmissions. Arrivals and not goodput, because in-order delivery hands over at once what waited for a lost packet. Of transfers longer than a second, with samples of at most one.";
    TIME_TO_PEAK_NS = "time_to_peak_ns" [Nanoseconds, Lower] "time to the peak rate":
        "From the first connect call to the end of the first second that has the peak rate of arrivals (see `received_peak_bps`). To the accuracy of the sample interval.";
    TIME_TO_95_OF_PEAK_NS = "time_to_95_of_peak_ns" [Nanoseconds, Lower] "time to 95 % of the peak rate":
        "From the first connect call to the end of the first second that has 95 % of the peak rate of arrivals (see `received_peak_bps`). To the accuracy of the sample interval.";
    UNSETTLED_STEPS = "unsettled_steps" [Count, Lower] "steps without settling":
        "Steps of the path's schedule after which the rate of arrivals did not settle (see `settling_time_mean_ns`): it still left the band in the second half of the time until the next step. Steps with fewer than ten samples until the next one are in neither.";
}
