//! Command lines of iperf3, of which each works unchanged behind `regatta client` and `regatta server`: in place of the host is
//! what the server printed. As with iperf3 the last of several equal flags counts, by which the tests shorten the lines.

use crate::{help::Bench, server::Server};

/// Asserts that a line is measured, of which `HOST` and `PORT` are replaced; `shorter` are further flags that keep it short.
#[track_caller]
fn works(line: &str, shorter: &[&str]) {
    let bench = Bench::new();
    let local = match line.contains(" -6 ") {
        true => "::1",
        false => "127.0.0.1",
    };
    let server = Server::start_on(&bench, local, &[]);
    let (_, port) = server.host_and_port();
    let arguments = line.split(' ').skip(1).map(|argument| match argument {
        "HOST" => server.address.clone(),
        "PORT" => port.to_owned(),
        argument => argument.to_owned(),
    });
    let mut args = vec!["client".to_owned()];
    args.extend(arguments);
    args.extend(shorter.iter().map(|&argument| argument.to_owned()));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = bench.run(&args);
    done.assert_code(0);
    let logged = std::fs::read_to_string(bench.path("iperf.log")).unwrap_or_default();
    let output = format!("{}{logged}", done.stdout);
    assert!(output.contains("goodput"), "{line}: {done:#?}");
}

macro_rules! lines {
    ($($name:ident: $line:literal, $($shorter:literal)*;)*) => {
        const LINES: &[&str] = &[$($line),*];

        $(
            #[test]
            fn $name() {
                works($line, &[$($shorter),*]);
            }
        )*
    };
}

lines! {
    plain: "iperf3 -c HOST", "-t" "0.3";
    port: "iperf3 -c HOST -p PORT", "-t" "0.3";
    time: "iperf3 -c HOST -t 30", "-t" "0.3";
    time_and_interval: "iperf3 -c HOST -t 60 -i 10", "-t" "0.3";
    reverse: "iperf3 -c HOST -R", "-t" "0.3";
    parallel: "iperf3 -c HOST -P 4", "-t" "0.3";
    parallel_reverse: "iperf3 -c HOST -P 8 -R -t 20", "-t" "0.3";
    bidirectional: "iperf3 -c HOST --bidir", "-t" "0.3";
    json: "iperf3 -c HOST -J", "-t" "0.3";
    json_and_time: "iperf3 -c HOST -t 5 -J -R", "-t" "0.3";
    json_stream: "iperf3 -c HOST --json-stream", "-t" "0.3";
    udp: "iperf3 -c HOST -u", "-t" "0.3";
    udp_with_rate: "iperf3 -c HOST -u -b 100M", "-t" "0.3";
    udp_with_rate_and_time: "iperf3 -c HOST -u -b 10M -t 30 -i 1", "-t" "0.3";
    udp_with_length: "iperf3 -c HOST -u -b 50M -l 1200", "-t" "0.3";
    udp_reverse: "iperf3 -c HOST -u -R -b 10M", "-t" "0.3";
    udp_parallel: "iperf3 -c HOST -u -P 4 -b 5M", "-t" "0.3";
    udp_bidirectional: "iperf3 -c HOST -u --bidir -b 10M -i 1", "-t" "0.3";
    udp_parallel_reverse: "iperf3 -c HOST -u -b 1M -P 8 -R -J", "-t" "0.3";
    udp_reliable: "iperf3 -c HOST --transport udp-reliable", "-t" "0.3";
    bytes: "iperf3 -c HOST -n 100M", "-n" "100K";
    bytes_in_parallel: "iperf3 -c HOST -n 1G -P 2", "-n" "100K";
    blocks: "iperf3 -c HOST -k 1000 -l 1K",;
    length: "iperf3 -c HOST -l 64K", "-t" "0.3";
    window: "iperf3 -c HOST -w 256K", "-t" "0.3";
    segment: "iperf3 -c HOST -M 1400", "-t" "0.3";
    no_delay: "iperf3 -c HOST -N", "-t" "0.3";
    congestion: "iperf3 -c HOST -C reno", "-t" "0.3";
    omitted: "iperf3 -c HOST -O 2 -t 12", "-t" "0.3" "-O" "0.2";
    processor: "iperf3 -c HOST -A 0", "-t" "0.3";
    bound: "iperf3 -c HOST -B 127.0.0.1", "-t" "0.3";
    verbose: "iperf3 -c HOST -V", "-t" "0.3";
    fourth_version: "iperf3 -4 -c HOST -t 10", "-t" "0.3";
    sixth_version: "iperf3 -6 -c HOST -t 10", "-t" "0.3";
    zero_copy: "iperf3 -Z -c HOST", "-t" "0.3";
    zero_copy_at_both_ends: "iperf3 -Z --skip-rx-copy -c HOST -l 128K", "-t" "0.3";
    discarded: "iperf3 -c HOST --skip-rx-copy -n 10M",;
    code_point: "iperf3 -c HOST --dscp ef", "-t" "0.3";
    log_file: "iperf3 -c HOST --logfile iperf.log", "-t" "0.3";
    title_and_format: "iperf3 -c HOST -T lab -f m --forceflush", "-t" "0.3";
    paced_reverse: "iperf3 -c HOST -b 1G -R --get-server-output", "-t" "0.3";
    time_out: "iperf3 -c HOST --connect-timeout 3000 -t 10", "-t" "0.3";
    much_at_once: "iperf3 -c HOST -t 30 -P 4 -R -w 1M -i 5 -O 1", "-t" "0.3" "-O" "0.1";
}

#[test]
fn every_supported_iperf3_flag_is_tested() {
    let flags = "-c -p -u -t -n -l -i -P -R --bidir -b -w -M -N -C -O -J -A -B -V -4 -6 -Z --skip-rx-copy --dscp --logfile";
    let used: Vec<&str> = LINES.iter().flat_map(|line| line.split(' ')).collect();
    let missing: Vec<&str> = flags
        .split(' ')
        .filter(|flag| !used.contains(flag))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_server_ends_after_one_client() {
    let bench = Bench::new();
    let mut server = Server::start(&bench, &["-s", "-1", "-V", "-i", "1"]);
    server.client(&bench, &["-n", "1K"]).assert_code(0);
    assert!(server.child.wait().expect("it ends").success());
    bench.assert_nothing_left();
}

#[test]
fn daemon_flag_is_refused() {
    let bench = Bench::new();
    bench.run(&["server", "-s", "-D"]).assert_code(2);
}
