//! Errors of drivers, processes, hosts and beds: one template each, and the function that fills it in. What a library or
//! the system says itself stays an argument in its own words.

use std::time::Duration;

use super::{
    template::{Phrase, phrases},
    text::Text,
};
use crate::units::{Bytes, Ratio};

phrases! {
    ERRORS "Errors.":

    // Ends of processes.
    process_ended_with(status: Text) = "its process ended with {status}";
    stopped_by_signal() = "it was stopped by a signal of somebody else (`SIGSTOP`)";
    killed_for_memory(status: &str) = "{status}, as the kernel killed a process for want of memory";
    last_lines(lines: &str) = "its last lines of output: {lines}";
    no_hello(within: Duration) = "no hello within {within}";
    ended_before_hello() = "it ended before its hello";
    other_protocol(theirs: u64, ours: u64) = "it speaks version {theirs} of the control protocol, this is version {ours}";
    other_before_hello(message: &str) = "it sent {message} before its hello";
    sent_in_trial(message: &str) = "it sent {message} in mid-trial";
    sent_before_start(message: &str) = "it sent {message} before the start";
    sent_no_address() = "it sent no address to connect to";
    not_an_answer(line: &str, error: &str) = "it wrote `{line}`, which is not an answer: {error}";
    cannot_start_agent(host: &str, reason: Text) = "cannot start an agent on host `{host}`: {reason}";
    not_a_sample(line: &str, error: Text) = "it wrote `{line}`, which is not a sample: {error}";
    values_without_names(values: u64, names: u64) = "it has {values} values for {names} names";
    output_ended() = "its output ended";
    output_unreadable(error: &str) = "its output cannot be read: {error}";
    monitor_exited(reason: Text, status: Text) = "{reason}, its process ended with {status}";

    // Guests.
    the_guest() = "the guest";
    receivers_guest() = "the receiver's guest";
    guest_hung(guest: Phrase, silence: Duration) = "{guest} hung: it sent nothing for {silence}, and was ended";
    receivers_guest_hung() = "the receiver's guest hung, and was ended";
    receivers_guest_ended() = "the receiver's guest ended";
    guest_not_ready(reason: &str) = "the guest could not be made ready: {reason}";
    guest_ended_early() = "the guest ended before its program did";
    kernel_ended_with(status: Text) = "its kernel ended with {status}";
    console_lines(lines: &str) = "the last lines of its console: {lines}";
    guest_daemon_ended() = "the guest's daemon ended";
    guest_daemon_ended_with(status: Text) = "the guest's daemon ended ({status})";
    its_program_ended_with(code: &str) = "its program ended with exit status {code}";
    guest_program_ended_with(code: &str) = "the guest's program ended with exit status {code}";

    // Beds.
    cannot_start(what: &str) = "cannot start `{what}`";
    path_daemon_ended() = "the path daemon ended";
    path_daemon_ended_with(status: Text) = "the path daemon ended ({status})";
    path_daemon_silent(within: Duration) = "the path daemon gave no answer within {within}";
    path_daemon_not_understood(line: &str) = "the path daemon answered `{line}`, which this version does not understand";
    cannot_reach(host: &str) = "cannot reach {host}";
    more_open_files() = "allow more open files with `ulimit -n 1024`, then try again";
    larger_files() = "allow larger files with `ulimit -f unlimited`, then try again";

    // Checks of the path.
    check_paused(paused: Duration, of: Duration) = "it paused for {paused} of {of}";
    check_packets_late(part: Ratio) = "{part} of the check's packets left too late";
    check_packets_refused(part: Ratio) = "{part} of the check's packets were lost because it did not keep up";
    processors_busy(part: Ratio) = "other processes used {part} of the processors";
    on_host(host: &str, what: Phrase) = "host `{host}`: {what}";

    // Captures.
    cannot_write_capture(path: &str) = "cannot write the capture `{path}`";
    netem_not_captured() = "netem does not tell what it does to each packet, so its path cannot be captured";
    no_own_emulator() = "there is no emulator of Regatta's own between its hosts";
    other_capture_name() = "choose another name, or remove what has this one";
    other_capture_place() = "choose a place that can be written and has room";
    capture_userspace() = "capture the path of `{--emulator} userspace`";
    leave_capture_out() = "leave `{--capture}` out";
    tcpdump_beside() = "run `tcpdump` beside it";
    capture_thread_ended() = "the thread that wrote the capture ended";

    // External programs.
    exit_code(code: &str) = "ended with exit code {code}";
    exit_signal(signal: &str) = "was ended by signal {signal}";
    not_ended_after_input(within: Duration) = "did not end within {within} of its input's end";
    end_not_answered(within: Duration) = "did not answer `end` with `over` within {within}";
    ended_with_trial() = "ended with the trial";
    with_stderr(how: Text, lines: Phrase) = "{how}; {lines}";
    last_stderr(lines: &str) = "its last lines of standard error: `{lines}`";
    last_stderr_of(lines: &str, file: &str) = "lines of its standard error: `{lines}` (all of it is in `{file}`)";

    // Results files.
    no_results_file(path: &str) = "there is no results file at `{path}`";
    no_such_path(path: &str) = "there is no file or directory `{path}`";
    other_kind(path: &str, found: Phrase, wanted: Phrase) = "`{path}` is {found}, not {wanted}";
    a_directory() = "a directory";
    a_file() = "a file";
    a_device() = "a device, a pipe or a socket";
    a_results_file() = "a results file";
    directory_of_run() = "the directory of a run";
    holds_no_run(path: &str) = "`{path}` holds no run: it was ended before anything was saved";
    not_results(path: &str) = "`{path}` is not a results file of Regatta, or its beginning is damaged";
    other_version(found: u64, only: u64, path: &str, writer: &str) = "`{path}` was written by Regatta {writer}, with tables of version {found}: this Regatta reads those of version {only} alone";
    other_version_unsigned(found: u64, only: u64, path: &str) = "`{path}` was written by another Regatta, with tables of version {found}: this one reads those of version {only} alone";
    damaged_results(path: &str, what: &str) = "`{path}` is damaged: {what}";
    no_plan() = "it does not say of which plan it is";
    other_plan(study: &str, than: &str) = "it is of another plan, of the study `{study}`, than `{than}`";
    merged_already() = "it is merged already";
    same_run(other: &str) = "it is the same run as `{other}`";

    // Sockets of drivers.
    cannot_send() = "cannot send";
    cannot_finish_sending() = "cannot finish sending";
    cannot_receive() = "cannot receive";
    cannot_send_or_receive() = "cannot send or receive";
    cannot_receive_opening() = "cannot receive an opening";
    cannot_set_up_connection() = "cannot set up the connection";
    cannot_accept() = "cannot accept a connection";
    cannot_listen() = "cannot listen";
    cannot_listen_without_blocking() = "cannot listen without blocking";
    cannot_read_listening_address() = "cannot read the listening address";
    cannot_read_socket_address() = "cannot read the address of the socket";
    no_internet_address() = "the listening socket has no internet address";
    cannot_open_socket(protocol: &str) = "cannot open a {protocol} socket";
    cannot_open_mptcp_socket() = "cannot open an MPTCP socket";
    cannot_open_sctp_socket() = "cannot open an SCTP socket";
    cannot_set_sctp_options() = "cannot set the options of an SCTP socket";
    cannot_bind_further() = "cannot bind to the further addresses of the interface";
    cannot_accept_association() = "cannot accept an association";
    cannot_set_code_point() = "cannot set the code point";
    cannot_open_udp_socket(local: &str) = "cannot open a UDP socket on `{local}`";
    cannot_set_up_udp_socket() = "cannot set up the UDP socket";
    cannot_bind(local: &str) = "cannot bind to `{local}`";
    cannot_set(option: &str) = "cannot set `{option}`";
    cannot_set_socket_buffers() = "cannot set the socket's buffers";
    cannot_set_control(control: &str) = "cannot set congestion control `{control}`";
    cannot_read_control() = "cannot read the congestion control back";
    other_control(used: &str, set: &str) = "the kernel uses congestion control `{used}` where `{set}` was set";
    cannot_set_subflow_addresses() = "cannot tell the kernel from which addresses to open MPTCP's subflows";
    cannot_copy_descriptor() = "cannot copy a descriptor";
    cannot_make_runtime() = "cannot make a runtime";
    cannot_choose_processors() = "cannot choose the processors of this end";
    fewer_processors(count: u64, most: u64) = "this host has fewer processors than {count}: {most}";
    write_processors(most: u64) = "write `cpus = {most}`, or leave `cpus` out";
    cannot_wait_for(what: Phrase) = "cannot wait for a {what}";
    cannot_wait_for_socket() = "cannot wait for a socket";
    cannot_move_port() = "cannot move to another port";

    // Connections of drivers.
    cannot_make_endpoint() = "cannot make a QUIC endpoint";
    cannot_open_quic_stream() = "cannot open a QUIC stream";
    no_quic_stream_opened() = "no QUIC stream was opened";
    quic_stream_broke() = "the QUIC stream broke";
    quic_connection_broke() = "the QUIC connection broke";
    quic_connection_not_followed() = "the QUIC connection is not followed";
    cannot_accept_quic() = "cannot accept a QUIC connection";
    cannot_begin_quic() = "cannot begin a QUIC connection";
    quic_handshake_failed(peer: &str) = "the QUIC handshake with `{peer}` failed";
    cannot_send_datagram_frame() = "cannot send a DATAGRAM frame";
    no_datagram_frame() = "no DATAGRAM frame came";
    cannot_send_quic_datagram() = "cannot send a QUIC datagram";
    no_quic_datagram() = "no QUIC datagram came";
    no_datagrams_of_connection() = "the QUIC connection has no datagrams";
    connection_is_closed() = "the connection is closed";
    connection_stopped() = "the connection was stopped";
    other_certificate() = "invalid peer certificate: it is not the one that was made for the run";
    idle_connection() = "nothing came from the other end within the idle time-out of the connection";
    quiche_gave_up(code: &str) = "quiche gave up with error code {code}";
    quiche_gave_up_with(error: &str, code: &str) = "quiche gave up with `{error}`, error code {code}";
    closed_by_application(code: &str) = "the other end's application closed it with error code {code}";
    closed_by_stack(code: &str) = "the other end's stack closed it with error code {code}";
    connection_gone() = "the connection is gone";
    cannot_set_path_limits() = "s2n-quic does not take the limits of the path";
    cannot_set_up_quiche() = "cannot set up quiche";
    cannot_set_up_tls() = "cannot set up TLS";
    no_random_numbers() = "the system gives no random numbers";
    cannot_use_server_name() = "cannot use the server's name";
    cannot_begin_tls() = "cannot begin TLS";
    tls_failed() = "TLS failed";
    cannot_encode_handshake() = "cannot encode a TLS handshake message";
    tls_state(state: &str) = "TLS reached a state that was not asked for: {state}";
    tls_not_sending() = "TLS does not let this end send";
    cannot_encrypt() = "cannot encrypt";
    cannot_encrypt_early_data() = "cannot encrypt early data";
    cannot_take_records() = "cannot take in TLS records";
    cannot_read_decrypted() = "cannot read what was decrypted";
    certificate_not_base64() = "the certificate of the run is not base64";
    key_not_base64() = "the key of the run is not base64";
    no_key() = "the listening end was given no key";
    cannot_open_sctp_stream() = "cannot open an SCTP stream";
    streams_each_way(streams: u64) = "the association has {streams} streams each way";
    association_broke() = "the SCTP association broke";
    one_reliable_stream() = "a connection of `udp-reliable` has one stream";
    no_opening_in_flow() = "the flow does not begin with the opening that its CONN has carried";
    aborted_by_peer() = "the other end aborted it";
    stack_gave_up() = "the stack gave it up on a packet that it could not take";
    peer_silent(silence: Duration) = "the other end has sent nothing for {silence}, and answered no HEARTBEAT";
    cannot_set_up_sctp_stream() = "cannot set up an SCTP stream";
    cannot_send_on_association() = "cannot send on the SCTP association";
    all_streams_open(streams: u64) = "the association has {streams} streams each way, and all are open; set the option `streams`";
    one_tcp_stream() = "a TCP connection has one stream";
    this_end_does_not_listen() = "this end does not listen";
    other_peer(peer: &str, announced: &str) = "`{peer}` is not the announced peer `{announced}`";
    another_token() = "the other end refused the connection: it knows another token";
    wdt_failed() = "the WDT transfer failed";
    cannot_make_key() = "cannot make a key";
    bad_offer() = "the receiver's offer is no good";
    cannot_begin_wdt() = "cannot begin the WDT transfer";
    cannot_make_directory(path: &str) = "cannot make the directory `{path}`";
    cannot_make_files_in(path: &str) = "cannot make files in `{path}`";
    cannot_make_key_log(path: &str) = "cannot make the key log `{path}`";
    cannot_make_event_log(path: &str) = "cannot make the event log `{path}`";
    cannot_make_file(path: &str) = "cannot make the file `{path}`";
    cannot_read_file(path: &str) = "cannot read `{path}`";
    cannot_open_file(path: &str) = "cannot open `{path}`";
    cannot_make_message_file() = "cannot make a message's file";
    cannot_make_certificate_file() = "cannot make the certificate's file";

    // Events that were waited for.
    handshake_with(protocol: &str, peer: &str) = "{protocol} handshake with `{peer}`";
    handshake_of(protocol: &str) = "{protocol} handshake";
    connection_of(protocol: &str) = "{protocol} connection";
    stream_of(protocol: &str) = "{protocol} stream";
    sctp_association() = "SCTP association";
    opening_of_flow() = "opening of a flow";
    end_of_tls_handshake() = "end of the TLS handshake";
    answer_to_connect(peer: &str) = "answer from `{peer}` to a connect call";
    answer_to_conn(times: u64) = "answer to {times} CONN";
    answer_to_opening(what: Phrase) = "answer to the opening of the {what}";
    answer_to_probe() = "answer to each message of the probe before the transfer";
    end_of_senders_part() = "end of the sender's part";
    offer_of_receiver() = "offer of the receiver";

    // Faults of an order, and violations of the protocol.
    no_short_connections(workload: &str) = "`{workload}` makes no short connections";
    exchange_too_long(size: Bytes) = "an exchange of {size} is longer than 256 MiB";
    empty_answer() = "an answer of zero bytes has no first byte";
    not_bulk(workload: &str) = "`{workload}` is not a bulk transfer";
    not_exchange(workload: &str) = "`{workload}` is not an exchange";
    empty_message() = "a message of zero bytes cannot be sent";
    message_too_long(size: Bytes) = "a message of {size} is longer than 256 MiB";
    too_many_messages(messages: u64) = "{messages} messages are more than 2^32 - 1";
    uncountable_messages(messages: u64, size: Bytes) = "{messages} messages of {size} are more than can be counted";
    requests_never_leave() = "requests that never leave cannot be answered";
    too_many_flows() = "more than 65536 flows are too many";
    no_messages_or_streams() = "there is no message, or no stream for it";
    no_rate(rate: &str) = "`{rate}` messages a second is no rate";
    no_frame(bytes: u64, from: &str) = "a datagram of {bytes} bytes from `{from}` is no frame of this protocol";
    conn_of_other_token(from: &str) = "a CONN from `{from}` has another token";
    wrong_acknowledgement(acknowledged: u64, bytes: u64) = "the receiver acknowledged {acknowledged} of {bytes} bytes";
    wrong_token() = "the trial's token is not 32 hexadecimal digits";
    wrong_answer() = "the answer is not the one that was asked for";
    answer_too_long() = "the answer is longer than the one that was asked for";
    acknowledgement_damaged() = "the receiver's acknowledgement is damaged";
    other_digest(found: &str, expected: &str) = "what arrived is not what was sent: its digest is {found}, not {expected}";
    unknown_flow(flow: u64) = "the other end opened flow {flow}, which this transfer does not have";
    unexpected_stream() = "a stream came that must not";
    incomplete_transfer(end: u64, size: u64) = "the transfer ended, and what arrived is whole up to byte {end} of {size} only";
    bytes_out_of_place(received: u64, at: u64, size: u64) = "{received} bytes came for place {at} of {size} bytes";
    wrong_offer_length(bytes: u64) = "the receiver announced an offer of {bytes} bytes";
    offer_not_text() = "the receiver's offer is no text";
    wrong_byte_asked(offset: u64, size: u64) = "byte {offset} of {size} was asked for";
    opened_instead(what: Phrase) = "the sender opened the {what} where the transfer was due";
    idle_probe() = "idle probe";
    load_probe() = "probe under load";
    transfer() = "transfer";

    // Errors of external programs.
    program_failed(program: &str) = "the program `{program}` failed";
    program_not_started() = "it cannot be started";
    program_ended_early(how: Phrase) = "it {how} before it was done";
    before_ready() = "before it was ready";
    when_describing() = "when it was asked for its description";
    when_receiving() = "when it had to receive";
    when_sending() = "when it had to send";
    when_probing() = "when it had to probe the idle path";
    program_silent(what: &str, within: Duration) = "it sent no `{what}` within {within}";
    not_of_contract(line: &str) = "it wrote a line that is not of the contract: `{line}`";
    line_too_long(limit: u64) = "it wrote a line of more than {limit} bytes";
    unexpected_message(message: &str, when: Phrase) = "it sent `{message}` {when}";
    no_checksum() = "its `done` has no CRC-32 of the data";
    other_checksum(bytes: u64, found: &str, expected: &str) = "the CRC-32 of the `{bytes}` bytes that it got is `{found}`, and of what was sent `{expected}`";
    done_too_early(bytes: u64, size: u64) = "it is done with `{bytes}` of `{size}` bytes delivered";
    done_unacknowledged(bytes: u64, size: u64) = "it is done with `{bytes}` of `{size}` bytes acknowledged";
    impossible_time(what: &str, at: &str, earliest: &str, now: &str) = "it says that it was `{what}` at `{at}` of the monotonic clock, which is not between `{earliest}` and `{now}`";
    no_port() = "its `ready` has no port";
    port_not_allowed(port: u64, allowed: &str) = "it listens on port {port}, and `ports` of the host are {allowed}: it has to read `ports` of its order";
    too_many_bytes(bytes: u64, size: u64) = "it speaks of `{bytes}` bytes, and there are `{size}`";
    answer_in_future(at: &str, now: &str) = "it says that an answer came at `{at}` of the monotonic clock, and said so at `{now}`";
    too_many_answers(answered: u64, delivered: u64) = "it reports `{answered}` answers, and the receiver got `{delivered}` messages";
    connected_without_time() = "its `connected` has no time";
    times_out_of_order(started: &str, call: &str, connected: &str, received: &str) = "its times do not follow one another: start sent at `{started}`, connect call at `{call}`, connected at `{connected}`, received at `{received}` of the monotonic clock";
    done_without_time() = "its `done` has no time";
    answers_not_asked() = "it reports answers to messages that its order does not have";
    probe_not_ordered() = "it reports packets of a probe that its order does not have";
    answer_before_connection() = "it reports an answer before it is connected";
    more_answers(number: u64) = "it reports more than `{number}` answers";
    request_too_early(number: u64, left: &str, at: &str, earliest: &str) = "it says that request `{number}` left at `{left}` and was answered at `{at}` of the monotonic clock, and by its order and its own times it could leave at `{earliest}` at the earliest";
    impossible_idle_answer(number: u64, left: &str, at: &str) = "its order rules out that message `{number}` of the probe before the transfer left at `{left}` and was answered at `{at}` of the monotonic clock";
    impossible_load_answer(number: u64, left: &str, at: &str) = "its order rules out that message `{number}` of the probe under load left at `{left}` and was answered at `{at}` of the monotonic clock";
    done_in_future(at: &str, now: &str) = "it says that it was done at `{at}` of the monotonic clock, and said so at `{now}`";
    other_contract(version: u64, ours: u64) = "it speaks version `{version}` of the contract and not `{ours}`";
    stdin_closed() = "its standard input cannot be written";
}
