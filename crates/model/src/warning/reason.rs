//! Reasons why trials have no figures, why runs ended early, and hints about both: one template each, and the function
//! that fills it in.
//!
//! In a hint, `|` stands between alternatives, and `{--rate}` for an option of the command that shows it: see
//! [`Renderer::option`](super::template::Renderer::option).

use std::time::Duration;

pub use super::error::*;
use super::{
    template::{Argument, Phrase, phrases},
    text::Text,
};
use crate::units::{Bytes, Ratio};

phrases! {
    REASONS "Reasons and hints.":

    caused_by(what: Text, cause: Text) = "{what}: {cause}";

    // Ends of a trial.
    subject_sender() = "sender";
    subject_receiver() = "receiver";
    died(end: Phrase, host: &str) = "the {end} on host `{host}` died during the trial";
    hung(end: Phrase, host: &str) = "the {end} on host `{host}` hung during the trial";
    failed(end: Phrase, host: &str) = "the {end} on host `{host}` failed";
    then_failed(end: Phrase, host: &str) = "the {end} on host `{host}` then failed";
    broke_protocol(end: Phrase, host: &str) = "the {end} on host `{host}` did not keep to the protocol";
    disturbed(end: Phrase, host: &str) = "the {end} on host `{host}` was disturbed from outside";
    no_answer(end: Phrase, host: &str, within: Duration, doing: Phrase) = "no answer from the {end} on host `{host}` within {within} of {doing}";
    no_answer_of_both(end: Phrase, host: &str, other: Phrase, other_host: &str, within: Duration, doing: Phrase) = "no answer from the {end} on host `{host}` and the {other} on host `{other_host}` within {within} of {doing}";
    the_trial() = "the trial";
    getting_ready() = "getting ready";
    path_not_begun() = "the path did not begin its schedule";
    own_process_stopped() = "somebody stopped the process of this end during the trial (`SIGSTOP`)";
    interface_was_down(interface: &str) = "the interface `{interface}` of this end was down during the trial";
    driver_panicked(driver: &str) = "the driver `{driver}` panicked";
    no_message() = "it gave no message";
    leave_processes_alone() = "leave Regatta's processes alone during the run";
    look_at_interface() = "look at the cable, and at who else configures the interface";
    mistake_in_driver() = "this is a mistake in the driver; set `RUST_BACKTRACE=1` to see where";

    // Flows of a competition.
    other_flow_unsupported(transport: &str) = "this competition cannot run here, because of its flow `{transport}`";
    other_flow_failed(transport: &str) = "nothing competed: the flow `{transport}` failed";
    not_of_server_port() = "most of its data has not the port of its server, by which the path knows a flow: it had no round-trip delay of its own";
    leave_flow_rtt_out() = "leave `rtt` of this flow out; of `udp`, messages that fit into a packet help";
    other_flow_invalid(transport: &str) = "the trial of the flow `{transport}` beside it is invalid";

    // Ends of a run.
    stopped_by_user() = "stopped by the user";
    stopped_with_error() = "it stopped with an error";
    ended_silently() = "its process ended without saying why, as after `kill -9` or a power cut";
    trials_missing(missing: u64, trials: u64) = "{missing} of {trials} trials are in none of the merged files";

    // Directories of results.
    resume_or_other_directory(run: &str) = "run `regatta resume {run}` to go on with it | choose another directory with `{--out}`";
    other_directory() = "choose another directory with `{--out}`";
    other_directory_or_move() = "choose another directory with `{--out}` | move that file away";
    free_space_or_other_directory() = "free some space and run the study again | choose another directory with `{--out}`";

    // Figures that cannot be.
    path_far_too_late(part: Ratio, late: Duration) = "the path was far outside its tolerance: {part} of the packets left it more than {late} late";
    path_far_overrun(part: Ratio) = "the path was far outside its tolerance: {part} of the packets were lost because the emulator did not keep up with the sender";
    capture_rules_out() = "the path cannot carry what was delivered between the packets with which the transfer seems to begin and to end";
    nothing_sent() = "nothing was sent before the time of the transfer was over: it passed while its flow was being opened";
    nothing_delivered() = "nothing was delivered before the time of the transfer was over";
    more_than_packets(delivered: u64, host: &str, packets: u64, mtu: u64) = "{delivered} B were delivered to host `{host}`, and {packets} packets of at most {mtu} B came to it in the whole trial";
    more_than_path(delivered: u64, host: &str, most: u64, time: Duration) = "{delivered} B were delivered to host `{host}`, and the path carries at most {most} B in the {time} in which they can have arrived";
    state_times_at_once() = "take `started_ns` just before the connect call and straight after `start`, `at_ns` when the acknowledgement has arrived, and write each line at once (docs/external-drivers.md)";
    check_program() = "hold the program's bytes and times against docs/external-drivers.md; for one that compresses write `pattern = \"random\"`";
    compare_with_capture() = "run it again with `{--capture} headers` and compare; `regatta doctor` shows what the machine lacks";
    idle_machine_or_lower_rate() = "leave the machine alone during the run | ask for a lower `{--rate}`";
    held_up() = "somebody else connected to the ports of its data, and its own connections waited behind that";
    keep_strangers_out() = "find out with `ss -tnp` who connects to this host's ports | allow the other host alone to connect";
    longer_transfer() = "give the transfer a longer `{--duration}` | give it a longer `{--deadline}`";

    // Errors of transports.
    trial_aborted() = "the trial was aborted";
    wrong_option() = "wrong option of the transport";
    no_thread() = "cannot start a thread";
    more_memory() = "allow more memory with `ulimit -v unlimited`, then try again";
    more_threads() = "allow more processes and threads with `ulimit -u 4096`, then try again";
    connection_closed_early() = "the other end closed the connection before it was done";
    transfer_closed_early() = "the other end closed the transfer before it was done";
    not_in_time(what: Text, within: Duration) = "no {what} within {within}";
    connection() = "connection";
    beginning_of_flow() = "beginning of the flow";
    end_of_transfer() = "end of the transfer";
    answer_to_request() = "answer to a request";
    answer_over_control() = "answer of the receiver over control";
    longer_connect_deadline() = "give a longer `{--connect-deadline}` | take a path with less loss";
    longer_deadline() = "give a longer `{--deadline}` | take a path with less loss";
    cannot_connect(peer: &str) = "cannot connect to `{peer}`";
    gave_up(times: u64) = "gave up: a message had no acknowledgement after {times} retransmissions";
    no_transport(name: &str) = "there is no transport `{name}`";
    choose_one_of(names: Vec<String>) = "choose one of {names}";

    // Workloads that a transport does not support.
    nothing_to_set_up(transport: &str) = "`{transport}` carries messages without connections, so there is nothing to set up and close";
    no_streams_to_block(transport: &str) = "`{transport}` carries messages without streams that could block them";
    flows_without_streams(transport: &str) = "`{transport}` carries messages without streams, so that each flow of a script needs a connection (`spread = \"streams\"`)";
    not_a_script() = "the script of the order is none that a study can have";
    choose_streams() = "choose a transport of streams";
    no_resumption(transport: &str, capability: &str) = "`{transport}` does not have a handshake with a ticket of an earlier connection (`{capability}`)";
    no_early_data(transport: &str, capability: &str) = "`{transport}` does not have data in the first flight (`{capability}`)";
    no_retry(transport: &str, capability: &str) = "`{transport}` does not have a Retry, which has the address proved before the handshake (`{capability}`)";
    full_handshake() = "write `handshake = \"full\"`, or choose another transport";
    one_stream(transport: &str, streams: u64) = "a connection of `{transport}` has one stream, not {streams}";
    spread_connections() = "write `spread = \"either\"`, so that each stream has a connection over a transport without several";
    no_stream_for_probe(transport: &str) = "a connection of `{transport}` has no streams beside the transfer's, so the probe under load cannot have one (`probe.placement = \"stream\"`)";
    abandoned_before_probe(workload: &str) = "the sender of the workload `{workload}` closes its connection with its last message (`finish = \"abandon\"`), so the probe under load cannot have a stream of it (`probe.placement = \"stream\"`)";
    probe_beside_script() = "the streams of a script's connection are its flows, so the probe under load cannot have one (`probe.placement = \"stream\"`)";
    probe_on_connection() = "leave `placement` out, so that the probe has a connection of its own over every transport";
    only_files(transport: &str, workload: &str) = "`{transport}` moves whole files one way and has no answers: it carries out `bulk` and not `{workload}`";
    not_for_files(key: &str) = "whole files are moved to the listening host, all of them and once: there is no `{key}`";
    set_connections() = "leave it out, and set the transport's `connections`";
    leave_out_or_other_transport() = "leave it out, or choose another transport";
    size_instead() = "write a `size` instead";
    not_over_messages() = "messages without connections or streams cannot run this workload";
    zero_copy_of_bulk(driver: &str) = "`{driver}` sends without a copy only the messages of `bulk` of more than 4 KiB that repeat, not those of a file or of another kind of work";
    leave_option_out(option: Argument) = "leave `{option}` out";
    not_bulk_over_messages() = "over messages a bulk transfer has no `finish`, no `verify` and no pattern `file`: these are for streams";
    leave_keys_out() = "leave these keys out, or choose a transport of streams";
    clocks_apart() = "each end has a clock of its own, and the offset between them is not known: the delay of a message from one to the other cannot be measured";
    run_in_namespaces() = "run this workload with `bed = \"netns\"`";
    from_memory_only() = "`stop-and-wait` sends from memory, not from a file";
    random_or_bulk() = "write `pattern = \"random\"`, or `kind = \"bulk\"`";
    longer_than_datagram(message: Bytes) = "a message of {message} is longer than a datagram carries";
    longer_than_taken(message: Bytes) = "a message of {message} is longer than the other end, or the path, takes";
    longer_than(message: Bytes, limit: Bytes) = "a message of {message} is longer than {limit}";
    message_of_at_most(bytes: u64) = "choose a message of at most {bytes} B";
    no_room_for_number(message: Bytes) = "a message of {message} has no room for the number that tells it from others where some can be lost";
    messages_of_at_least(bytes: u64) = "write messages of at least {bytes} B, or choose a transport of streams";
    requests_of_at_least(bytes: u64) = "choose `request` and `response` of at least {bytes} B";
    other_end_takes(transport: &str, bytes: u64) = "the other end's `{transport}` takes messages of at most {bytes} B";
    datagrams_at_both_ends() = "set `mode = \"datagram\"` at both ends";

    // Things that a host lacks.
    no_room_for_file(file: &str, size: Bytes) = "no room for the file `{file}` of {size}";
    free_some_room() = "free some, or set `XDG_CACHE_HOME` to a directory on a larger disk";
    not_installed(program: &str, what: Phrase) = "`{program}` is not installed: {what}";
    no_directories_set() = "neither `REGATTA_EXTERNAL_DIR` nor `HOME` is set";
    no_such_file(file: &str) = "there is no `{file}`";
    make_external() = "run `make external`, or set `REGATTA_EXTERNAL_DIR` to where it is";
    not_carried_out(program: &str, workload: &str) = "`{program}` does not carry out `{workload}`";
    not_by_programs(workload: &str) = "external programs carry out `bulk`, `stop-and-wait` and `request-response`, and not `{workload}`";
    workload_of_program(workloads: &str) = "choose a workload that it carries out: {workloads}";
    workload_or_no_program() = "choose one of these, or a transport that is no external program";
    no_end_without_acknowledgement(program: &str) = "`{program}` does not end without the receiver's acknowledgement";
    leave_finish_out() = "leave `finish` out";
    program_says_no_reason() = "the program says that it cannot run here, and not why";
    path_too_small_for_quic(mtu: u64, least: u64) = "the path carries packets of at most {mtu} bytes, QUIC needs {least} (RFC 9000, 14)";
    path_too_small(mtu: u64, least: u64) = "the path carries packets of at most {mtu} bytes, this driver needs {least}";
    larger_mtu(least: u64) = "set the condition's MTU to at least {least}";
    no_qlog(stack: &str) = "this build writes no `qlog` of {stack}";
    build_with_qlog() = "build Regatta with `--features noq-qlog`, which costs all trials of noq a third more CPU time | take `quic-quinn`";
    not_in_contract(key: &str) = "the contract with external programs has no `{key}`";
    leave_out_or_no_program() = "leave it out, or use a transport that is no external program";
    no_sctp(error: &str) = "this kernel has no SCTP: {error}";
    no_sctp_socket(error: &str) = "an SCTP socket cannot be opened: {error}";
    load_sctp() = "run `modprobe sctp` as root | give `{--bed} uml`, whose kernel has it | use `sctp-userspace`";
    sctp_elsewhere() = "give `{--bed} uml`, whose kernel has it | use `sctp-userspace`";
    control_not_allowed(control: &str, allowed: Vec<String>) = "this user may not choose congestion control `{control}`; allowed are: {allowed}";
    allow_control(allowed: &str, control: &str) = "run `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{allowed} {control}\"` as root";
    no_control(control: &str, available: Vec<String>) = "this kernel has no congestion control `{control}`; it has: {available}";
    choose_control(available: Vec<String>) = "choose one that it has ({available})";
    choose_or_load_control(available: Vec<String>, control: &str) = "choose one that it has ({available}) | run `modprobe tcp_{control}` as root, if the kernel has that module";
    mptcp_off() = "MPTCP is switched off on this host";
    switch_mptcp_on() = "run `sysctl -w net.mptcp.enabled=1` as root";
    no_mptcp(error: &str) = "this kernel has no MPTCP: {error}";
    boot_with_mptcp() = "boot a kernel with CONFIG_MPTCP";

    // Beds that cannot be made.
    tun_not_made() = "make the device with `sudo mkdir -p /dev/net && sudo mknod -m 0666 /dev/net/tun c 10 200` | in a container start it with `--device /dev/net/tun` | run with `{--bed} uml --clock virtual`, which works without it";
    tun_not_loaded() = "load the driver with `sudo modprobe tun` | run with `{--bed} uml --clock virtual`, which works without it";
    tun_not_open() = "let every user open it, as Debian does, with `sudo chmod 666 /dev/net/tun` | run as root | run with `{--bed} uml --clock virtual`, which works without it";
    tun_not_permitted() = "this container may not use the device: start it with `--device /dev/net/tun` | run with `{--bed} uml --clock virtual`, which works without it";
    bed_without_tun() = "run with `{--bed} uml --clock virtual`, which works without it";
    load_netem(module: &str) = "load it with `sudo modprobe {module}` | run in a guest that has it with `{--bed} uml` | use Regatta's own emulator with `{--emulator} userspace`";
    netem_in_guest() = "run in a guest that has it with `{--bed} uml` | use Regatta's own emulator with `{--emulator} userspace`";

    // Limits of a server.
    server_allows(most: Bytes) = "the server allows {most} for one client";
    server_only_listens() = "a server listens and does not connect";
    server_takes_no_option(option: &str) = "a server takes no option `{option}` from its clients";
    server_sends_no_files() = "a server sends no files from its disk";
    ask_for_less() = "ask for less, or ask whoever runs the server for more";
}

/// Joins an error with its causes, given outermost first.
#[must_use]
pub fn chain(reasons: Vec<Text>) -> Text {
    let joined = reasons
        .into_iter()
        .rev()
        .reduce(|cause, what| caused_by(what, cause).into());
    joined.unwrap_or_default()
}
