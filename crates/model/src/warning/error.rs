//! Errors of drivers, processes, hosts and beds: one template each, and the function that fills it in. What a library or
//! the system says itself stays an argument in its own words.

use std::time::Duration;

use super::{
    template::{Phrase, phrases},
    text::Text,
};
use crate::units::Ratio;

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
    cannot_write_capture(path: &str, error: &str) = "cannot write the capture `{path}`: {error}";
    capture_thread_ended() = "the thread that wrote the capture ended";

    // External programs.
    exit_code(code: &str) = "ended with exit code {code}";
    exit_signal(signal: &str) = "was ended by signal {signal}";
    not_ended_after_input(within: Duration) = "did not end within {within} of its input's end";
    end_not_answered(within: Duration) = "did not answer `end` with `over` within {within}";
    ended_with_trial() = "ended with the trial";
    with_stderr(how: Text, lines: Phrase) = "{how}; {lines}";
    last_stderr(lines: &str) = "its last lines of standard error: `{lines}`";

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
    newer_results(found: u64, most: u64, path: &str) = "this file was written by a newer Regatta (schema {found}, this one reads up to {most}): `{path}`";
    damaged_results(path: &str, what: &str) = "`{path}` is damaged: {what}";
    other_schema(found: u64, only: u64) = "its tables are of schema {found}, and only files of schema {only} are merged: an earlier version of Regatta made its figures by other rules";
    no_plan() = "it does not say of which plan it is: an earlier version of Regatta began it";
    other_plan(study: &str, than: &str) = "it is of another plan, of the study `{study}`, than `{than}`";
    merged_already() = "it is merged already";
    same_run(other: &str) = "it is the same run as `{other}`";
}
