//! Accounts and servers of hosts that are set up in other ways: sudo, few sessions, IPv6, a jump host, a terminal, disks
//! that are full or cannot be written, uploads that broke off.

use std::{io::Read as _, os::unix::fs::MetadataExt as _};

use super::*;

impl Lab {
    /// Returns the `sshd` of a host that listens.
    fn server(&self, host: &str) -> i32 {
        let configuration = self.bench.path(host).join("etc/sshd_config");
        let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let found = running_with(&configuration.display().to_string()).into_iter();
        let mut found = found.filter(|pid| name(pid) == "sshd\n");
        found.next().expect("a server")
    }

    /// Runs a command as root in all namespaces of a host.
    fn in_host(&self, host: &str, command: &str) {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &self.server(host).to_string()]);
        nsenter.args(["--net", "--mount", "--pid", "--", "sh", "-e", "-c", command]);
        let status = nsenter.status().expect("nsenter");
        assert!(status.success(), "{command}");
    }

    /// Adds lines to the configuration of a host's `sshd`, which reads it again.
    fn configure(&self, host: &str, lines: &str) {
        let path = self.bench.path(host).join("etc/sshd_config");
        let former = fs::read_to_string(&path).expect("a file");
        fs::write(&path, format!("{lines}\n{former}")).expect("a file");
        let log = self.bench.path(host).join("log");
        let listens = || {
            let log = fs::read_to_string(&log).expect("a log");
            log.matches("Server listening on 0.0.0.0").count()
        };
        let before = listens();
        crate::help::signal(self.server(host), nix::sys::signal::Signal::SIGHUP);
        eventually(TIMEOUT, "the server reads its configuration", || {
            listens() > before
        });
    }

    /// Adds a line to the table of each host in the hosts file.
    fn set(&self, line: &str) {
        let file = self.bench.path("home/.config/regatta/hosts.toml");
        let mut hosts = fs::read_to_string(&file).expect("a file");
        for table in ["[a]", "[b]"] {
            hosts = hosts.replace(table, &format!("{table}\n{line}"));
        }
        fs::write(&file, hosts).expect("a file");
    }

    /// Gives both hosts a `sudo` with these rules.
    fn sudo(&self, rules: &str) {
        let file = self.bench.write("sudoers", rules);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).expect("a file");
        let bind = format!("mount --bind {} /etc/sudoers", file.display());
        for host in ["a", "b"] {
            self.in_host(host, &bind);
        }
        self.set("become = \"sudo -n\"");
    }

    /// Directory of the files that were sent to a host.
    fn agents(&self, host: &str) -> PathBuf {
        self.home(host).join(".cache/regatta/agents")
    }

    /// Program that was sent to host `a`.
    fn program(&self) -> PathBuf {
        succeeds(&self.run(&["hosts", "check", "a"]));
        let mut sent = fs::read_dir(self.agents("a")).expect("a directory");
        sent.next().expect("a program").expect("a file").path()
    }

    /// Bytes that a host has received over the wire to the controller.
    fn received(&self, wire: &str) -> u64 {
        let path = format!("cat /sys/class/net/{wire}/statistics/tx_bytes");
        let output = Command::new("nsenter")
            .args(["--target", &self.controller.to_string(), "--net", "--"])
            .args(["unshare", "--mount", "sh", "-c"])
            .arg(format!("mount -t sysfs sysfs /sys && {path}"))
            .output()
            .expect("nsenter");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.trim().parse().expect("a number")
    }
}

#[track_caller]
fn assert_fails_with(output: &Output, expected: &[&str]) {
    for expected in expected {
        assert_fails(output, expected);
    }
}

#[test]
fn one_session_is_enough() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    lab.configure("a", "MaxSessions 1");
    lab.configure("b", "MaxSessions 1\nMaxStartups 1:100:1");
    lab.add_both();
    let run = lab.race("out", &["--rounds", "1"]).output();
    succeeds(&run.expect("a run"));
}

#[test]
fn a_host_without_sessions_is_refused() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    for host in ["a", "b"] {
        lab.configure(host, "MaxSessions 0");
    }
    let expected = ["opens no session", "hint: ", "`MaxSessions 0`"];
    assert_fails_with(&lab.run(&["hosts", "check", "a"]), &expected);
    assert_fails_with(&lab.add("a", &lab.password, &[]), &expected);
}

#[test]
fn files_are_received_with_the_rights_of_the_account_and_not_of_sudo() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    lab.sudo("Defaults use_pty\nracer ALL=(root) NOPASSWD: ALL\n");
    lab.bench.write("file", "content");
    let send = |to: &str| lab.run(&["wdt", "send", "file", to, "--no-progress"]);
    succeeds(&send("a:incoming"));
    let owner = fs::metadata(lab.home("a").join("incoming/file"))
        .expect("a file")
        .uid();
    let home = fs::metadata(lab.home("a")).expect("a directory").uid();
    assert!(owner != 0 && owner == home, "{owner}, not {home}");
    for to in ["a:../../../../../../../../../../root/x", "a:/usr/x"] {
        // The receiver's end tells it, with the exit code of a transfer that failed there.
        let output = send(to);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        assert!(
            text(&output).contains("Permission denied"),
            "{}",
            text(&output)
        );
    }
}

#[test]
fn root_by_sudo_runs_a_study_and_leaves_nothing() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    lab.sudo("Defaults use_pty\nracer ALL=(root) NOPASSWD: ALL\n");
    let run = lab.race("out", &["--rounds", "1"]).output();
    succeeds(&run.expect("a run"));
    eventually(CLEANUP_TIMEOUT, "nothing is left on the hosts", || {
        lab.on_hosts().is_empty()
    });
    let mut run = lab
        .race("killed", &["--rounds", "1000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a run");
    eventually(TIMEOUT, "a trial", || {
        lab.on_hosts().len() >= 8 && lab.bench.path("killed/results.sqlite").exists()
    });
    run.kill().expect("a signal");
    run.wait().expect("an end");
    eventually(CLEANUP_TIMEOUT, "nothing is left on the hosts", || {
        lab.on_hosts().is_empty()
    });
}

#[test]
fn sudo_with_a_password_prompt_is_reported() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    lab.sudo("racer ALL=(root) ALL\n");
    let expected = [
        "sudo: a password is required",
        "hint: `ssh racer@10.98.1.2 sudo -n true` has to work",
        "NOPASSWD",
    ];
    assert_fails_with(&lab.run(&["hosts", "check", "a"]), &expected);
    let run = lab.race("out", &["--rounds", "1"]).output();
    assert_fails_with(&run.expect("a run"), &expected);
}

#[test]
fn hosts_are_reached_and_measured_over_ipv6() {
    let Some(mut lab) = Lab::start() else { return };
    lab.ways = [
        ("racer@fd98:1::2", "fd98:3::1"),
        ("racer@fd98:2::2", "fd98:3::2"),
    ];
    for (host, number) in [("a", 1), ("b", 2)] {
        lab.in_network(&format!(
            "ip addr add fd98:{number}::1/64 dev manage{number} nodad"
        ));
        lab.on_host(
            host,
            &format!(
                "ip addr add fd98:{number}::2/64 dev manage nodad
                 ip addr add fd98:3::{number}/64 dev data nodad"
            ),
        );
    }
    lab.add_both();
    let transports = "tcp:cc=reno,quic-quinn,udp-reliable,wdt:cc=reno";
    let mut run = lab.regatta(&["run", "--hosts", "a,b", "--out", "out", "--no-progress"]);
    let run = run.args([
        "--transport",
        transports,
        "--size",
        "300kB",
        "--rounds",
        "1",
    ]);
    succeeds(&run.output().expect("a run"));
    let csv = fs::read_to_string(lab.bench.path("out/trials.csv")).expect("trials");
    assert_eq!(csv.matches(",measured,").count(), 4, "{csv}");
    let checked = lab.run(&["hosts", "check", "a,b", "--json"]);
    succeeds(&checked);
    let lines = String::from_utf8_lossy(&checked.stdout).into_owned();
    let found: Vec<serde_json::Value> = (lines.lines())
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let schema = include_str!("../../../../../schemas/hosts-check.schema.json");
    (found.iter()).for_each(|found| crate::happy::assert_fits(schema, found));
    assert_eq!(found[0]["name"], "a", "{lines}");
    assert_eq!(found[0]["ssh"]["from"], "fd98:1::1", "{lines}");
    assert_eq!(found.last().map(|path| &path["to"]), Some(&"b".into()));
    let checked = lab.run(&["hosts", "check", "a"]);
    assert!(text(&checked).contains("SSH goes from fd98:1::1 to fd98:1::2"));
}

#[test]
fn interface_name_resolves_to_its_address() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let file = lab.bench.path("home/.config/regatta/hosts.toml");
    let hosts = fs::read_to_string(&file).expect("a file");
    let with = |name: &str| {
        let named = format!("address = \"{name}\"");
        let changed = hosts.replace("address = \"10.98.3.1\"", &named);
        fs::write(&file, changed).expect("a file");
    };
    with("data");
    let checked = lab.run(&["hosts", "check", "a,b"]);
    succeeds(&checked);
    assert!(text(&checked).contains("Transfers go to 10.98.3.1."));
    succeeds(&lab.race("out", &["--rounds", "1"]).output().expect("a run"));
    with("eth9");
    let checked = lab.run(&["hosts", "check", "a,b"]);
    assert_eq!(checked.status.code(), Some(2), "{}", text(&checked));
    for expected in ["host `a` has no interface `eth9`", "`data`", "`manage`"] {
        assert!(text(&checked).contains(expected), "{}", text(&checked));
    }
}

#[test]
fn interrupted_upload_is_resumed() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    lab.add_both();
    fs::write(lab.home("a").join(".bashrc"), "ulimit -f 4000\n").expect("a file");
    let broken = lab.run(&["hosts", "check", "a"]);
    assert_fails(&broken, "cannot reach host `a`");
    let parts = || {
        let entries = fs::read_dir(lab.agents("a")).expect("a directory");
        let parts = entries.flatten().map(|entry| entry.path());
        parts
            .filter(|path| path.extension().is_some_and(|of| of == "part"))
            .map(|path| path.metadata().expect("a file").len())
            .collect::<Vec<_>>()
    };
    assert_eq!(parts(), [4_000 * 1024]);
    fs::remove_file(lab.home("a").join(".bashrc")).expect("a file");
    let before = lab.received("manage1");
    succeeds(&lab.run(&["hosts", "check", "a"]));
    let resumed = lab.received("manage1") - before;
    assert!(parts().is_empty());
    let before = lab.received("manage2");
    succeeds(&lab.run(&["hosts", "check", "b"]));
    let whole = lab.received("manage2") - before;
    assert!(resumed + 3_000_000 < whole, "{resumed} {whole}");
}

#[test]
fn partial_upload_of_another_file_is_detected() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    succeeds(&lab.run(&["hosts", "check", "a"]));
    let agent = fs::read_dir(lab.agents("a"))
        .expect("a directory")
        .flatten();
    let agent = agent.map(|entry| entry.path()).next().expect("a file");
    fs::remove_file(&agent).expect("a file");
    // No process has the number.
    let host = nix::sys::utsname::uname()
        .expect("a name")
        .nodename()
        .to_owned();
    let part = format!("{}.{}.4194305.part", agent.display(), host.display());
    fs::write(&part, vec![b'x'; 100_000]).expect("a file");
    std::os::unix::fs::chown(&part, Some(4242), Some(4242)).expect("a file");
    let damaged = lab.run(&["hosts", "check", "a"]);
    assert_fails_with(&damaged, &["the file arrived damaged", "hint: try again"]);
    succeeds(&lab.run(&["hosts", "check", "a"]));
}

/// The first runs against a host, at the same time: each sends the program.
#[test]
fn a_fresh_host_is_reached_by_two_commands_at_once() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    lab.add_both();
    // Made before, so that both send at once.
    succeeds(&lab.run(&["hosts", "check", "b"]));
    let checks = [(); 2].map(|()| {
        let mut check = lab.regatta(&["hosts", "check", "a"]);
        check.stdout(Stdio::piped()).stderr(Stdio::piped());
        check.spawn().expect("nsenter")
    });
    for check in checks {
        succeeds(&check.wait_with_output().expect("an end"));
    }
    let names = fs::read_dir(lab.agents("a"))
        .expect("a directory")
        .flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_damaged_program_on_a_host_is_sent_again() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    lab.add_both();
    succeeds(&lab.run(&["hosts", "check", "a"]));
    let mut agents = fs::read_dir(lab.agents("a"))
        .expect("a directory")
        .flatten();
    let agent = agents.next().expect("a file").path();
    let whole = fs::read(&agent).expect("a file");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&flipped, &whole[..whole.len() / 2]] {
        // As the owner would write it: the mode stays.
        fs::write(&agent, damaged).expect("a file");
        succeeds(&lab.run(&["hosts", "check", "a"]));
        assert!(fs::read(&agent).expect("a file") == whole);
    }
}

#[test]
fn files_that_were_not_used_for_thirty_days_are_removed() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let agents = lab.agents("a");
    let touch = |name: &str, days: u32| {
        let mut touch = Command::new("setpriv");
        touch.args(["--reuid", "4242", "--regid", "4242", "--clear-groups"]);
        touch.args(["sh", "-e", "-c"]).arg(format!(
            "mkdir -p {directory}; touch -d '{days} days ago' {directory}/{name}",
            directory = agents.display()
        ));
        assert!(touch.status().expect("setpriv").success());
    };
    touch("old", 32);
    touch("older.part", 40);
    touch("recent", 29);
    succeeds(&lab.run(&["hosts", "check", "a"]));
    assert!(!agents.join("old").exists());
    assert!(!agents.join("older.part").exists());
    assert!(agents.join("recent").exists());
    assert_eq!(fs::read_dir(agents).expect("a directory").count(), 2);
}

/// Terminal of a command.
struct Terminal {
    child: Child,
    shown: String,
}

impl Terminal {
    fn start(lab: &Lab, args: &str) -> Self {
        let command = lab.regatta(&[]);
        let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        // All but the program: `script` makes a terminal for it.
        let mut terminal = lab.bench.command("nsenter");
        terminal
            .args(&arguments[..arguments.len() - 1])
            .args(["script", "-qefc"])
            .arg(format!("{} {args}", env!("CARGO_BIN_EXE_regatta")))
            .arg("/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => terminal.env(name, value),
                None => terminal.env_remove(name),
            };
        }
        Self {
            child: terminal.spawn().expect("script"),
            shown: String::new(),
        }
    }

    /// Waits until the terminal shows this.
    fn shows(&mut self, text: &str) {
        let out = self.child.stdout.as_mut().expect("a pipe");
        let mut byte = [0];
        let from = self.shown.len();
        while !self.shown[from..].contains(text) {
            let read = out.read(&mut byte).expect("output");
            assert!(read > 0, "no `{text}` in `{}`", self.shown);
            self.shown.push(char::from(byte[0]));
        }
    }

    fn types(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{line}").expect("a terminal");
    }

    /// Returns the exit code and everything that was shown.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = Vec::new();
        let out = self.child.stdout.as_mut().expect("a pipe");
        out.read_to_end(&mut rest).expect("output");
        let status = self.child.wait().expect("an end");
        self.shown.push_str(&String::from_utf8_lossy(&rest));
        (status.code(), self.shown)
    }
}

#[test]
fn fingerprint_and_password_are_prompted_for_on_the_terminal() {
    let Some(lab) = Lab::start() else { return };
    let known = lab.bench.path("known").display().to_string();
    for (name, destination) in [("a", lab.ways[0].0), ("b", lab.ways[1].0)] {
        let add =
            format!("hosts add {name} {destination} --ssh-option=-oUserKnownHostsFile={known}");
        let mut terminal = Terminal::start(&lab, &add);
        terminal.shows("SHA256:");
        terminal.shows("(yes/no");
        terminal.types("no");
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("was not confirmed"), "{shown}");

        let mut terminal = Terminal::start(&lab, &add);
        terminal.shows("(yes/no");
        terminal.types("yes");
        for _ in 0..3 {
            terminal.shows("assword:");
            terminal.types("wrong");
        }
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("the host refused the password"), "{shown}");

        let mut terminal = Terminal::start(&lab, &add);
        terminal.shows("assword:");
        terminal.types("wrong");
        terminal.shows("The host refused that password.");
        terminal.shows("assword:");
        terminal.types(&lab.password);
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(0), "{shown}");
        assert!(!shown.contains(&lab.password), "{shown}");
        assert!(shown.contains("is ready"), "{shown}");
    }
}

#[test]
fn full_disk_on_a_host_is_reported() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let cache = lab.home("a").join(".cache");
    let mount = format!(
        "mkdir -p {cache}; mount -t tmpfs -o size=2m,uid=4242,gid=4242,mode=700 tmpfs {cache}",
        cache = cache.display()
    );
    lab.in_host("a", &mount);
    let expected = [
        "cannot reach host `a`",
        "No space left on device",
        "hint: make room",
    ];
    assert_fails_with(&lab.run(&["hosts", "check", "a"]), &expected);
    let run = lab.race("out", &["--rounds", "1"]).output();
    assert_fails_with(&run.expect("a run"), &expected);
}

/// A server that is stopped before it has its guard, and whose controller ends then.
#[test]
fn a_server_that_is_stopped_while_it_starts_does_not_outlive_its_controller() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    lab.sudo("Defaults use_pty\nracer ALL=(root) NOPASSWD: ALL\n");
    let script = format!(
        "#!/bin/sh\n[ $1 = host-guard ] && exec {} \"$@\"\necho $$ >{}\nkill -STOP $$\n",
        lab.program().display(),
        lab.home("a").join("stopped-here").display(),
    );
    let stopped = lab.bench.write("stopped", &script);
    fs::set_permissions(&stopped, fs::Permissions::from_mode(0o755)).expect("a file");
    lab.set(&format!("agent = \"{}\"", stopped.display()));
    let mut check = lab.regatta(&["hosts", "check", "a"]);
    let mut check = check
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nsenter");
    eventually(TIMEOUT, "the server is stopped", || {
        let mark = stopped.display().to_string();
        lab.home("a").join("stopped-here").exists()
            && running_with(&mark)
                .iter()
                .any(|pid| regatta_process::is_stopped(pid.cast_unsigned()))
    });
    check.kill().expect("a signal");
    check.wait().expect("an end");
    eventually(TIMEOUT, "nothing is left on the host", || {
        running_with(&stopped.display().to_string()).is_empty()
    });
}

/// Stops the servers of a run under `sudo` with these rules, and then its controller.
fn no_sudo_is_left(rules: &str) {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    lab.sudo(&format!("{rules}\nracer ALL=(root) NOPASSWD: ALL\n"));
    let mut run = lab.race("out", &["--rounds", "1000"]);
    let run = run.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = run.spawn().expect("a run");
    let servers = || {
        let is_server = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"host-server")
        };
        let mut found = lab.on_hosts();
        found.retain(is_server);
        found
    };
    eventually(TIMEOUT, "a trial", || {
        lab.on_hosts().len() >= 8 && lab.bench.path("out/results.sqlite").exists()
    });
    let servers = servers();
    assert_eq!(servers.len(), 2);
    for server in servers {
        crate::help::signal(server, nix::sys::signal::Signal::SIGSTOP);
    }
    run.kill().expect("a signal");
    run.wait().expect("an end");
    eventually(TIMEOUT, "nothing is left on the hosts", || {
        lab.on_hosts().is_empty()
    });
}

#[test]
fn a_server_that_is_stopped_leaves_no_sudo() {
    no_sudo_is_left("Defaults !use_pty");
}

#[test]
fn a_server_that_is_stopped_leaves_no_sudo_with_a_terminal_of_its_own() {
    no_sudo_is_left("Defaults use_pty");
}

/// A host that answers the login, and whose server then is silent.
#[test]
fn a_host_that_answers_ssh_and_then_nothing_is_a_failure_of_the_host() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let file = lab.bench.path("home/.config/regatta/hosts.toml");
    let hosts = fs::read_to_string(&file).expect("a file");
    // Of the interface the address is asked for over the session.
    fs::write(&file, hosts.replace("\"10.98.3.1\"", "\"data\"")).expect("a file");
    let script = format!(
        "#!/bin/sh\n[ $1 = host-server ] || exec {} \"$@\"\necho; echo regatta-session 4 0.1.0 1; exec cat >/dev/null\n",
        lab.program().display(),
    );
    let silent = lab.bench.write("silent", &script);
    fs::set_permissions(&silent, fs::Permissions::from_mode(0o755)).expect("a file");
    lab.set(&format!("agent = \"{}\"", silent.display()));
    for args in [
        &["hosts", "check", "a"][..],
        &["run", "--hosts", "a,b", "--transport", "tcp"],
    ] {
        let output = lab.run(args);
        assert_fails_with(
            &output,
            &["host `a` does not answer", "the host was silent for 5"],
        );
        assert!(!text(&output).contains("no interface"), "{}", text(&output));
    }
}

/// Asks host `a`, whose server is stopped before it has its guard.
fn a_stopped_server_is_killed(lab: &Lab) {
    let script = "#!/bin/sh\nkill -STOP $$\n";
    let stopped = lab.bench.write("stopped", script);
    fs::set_permissions(&stopped, fs::Permissions::from_mode(0o755)).expect("a file");
    lab.set(&format!("agent = \"{}\"", stopped.display()));
    let expected = ["cannot reach host `a`", "no greeting within 30 s"];
    assert_fails_with(&lab.run(&["hosts", "check", "a"]), &expected);
    let surviving = surviving_with(&stopped.display().to_string());
    assert!(surviving.is_empty(), "{surviving:?}");
}

#[test]
fn a_server_that_is_stopped_while_it_starts_is_killed() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    a_stopped_server_is_killed(&lab);
}

#[test]
fn a_server_that_is_stopped_while_it_starts_through_sudo_is_killed() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    lab.sudo("Defaults use_pty\nracer ALL=(root) NOPASSWD: ALL\n");
    a_stopped_server_is_killed(&lab);
}

#[test]
fn read_only_home_is_reported() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    lab.add_both();
    let home = lab.home("a").display().to_string();
    lab.in_host(
        "a",
        &format!("mount --bind {home} {home}; mount -o remount,bind,ro {home}"),
    );
    let expected = ["cannot reach host `a`", "Read-only file system", "`agent`"];
    assert_fails_with(&lab.run(&["hosts", "check", "a"]), &expected);
}

#[test]
fn a_host_whose_temporary_directory_cannot_be_written_runs_a_study() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    lab.add_both();
    // The hosts' homes are below it.
    let all = lab.bench.path(".").display().to_string();
    let read_only = format!(
        "mount --bind {all} {all}; mount --rbind /tmp /tmp; mount -o remount,bind,ro /tmp
         ! touch /tmp/regatta-written 2>/dev/null"
    );
    for host in ["a", "b"] {
        lab.in_host(host, &read_only);
    }
    let mut run = lab.regatta(&["run", "--hosts", "a,b", "--out", "out", "--no-progress"]);
    run.args(["--transport", "tcp:cc=reno,quic-quinn,wdt:cc=reno"]);
    let run = run.args(["--size", "300kB", "--rounds", "1"]).output();
    succeeds(&run.expect("a run"));
}

#[test]
fn host_is_reached_over_a_jump_host() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    lab.add_both();
    // Regatta's own key forwards nothing; a jump host is opened by a key of the user's.
    let keys = lab.keys("a").replace("restrict ", "");
    fs::write(lab.home("a").join(".ssh/authorized_keys"), keys).expect("a file");
    let home = lab.bench.path("home");
    let (key, known) = (
        home.join(".config/regatta/ssh/id_ed25519"),
        lab.bench.path("known"),
    );
    let hosts = format!(
        "[behind]\nssh = \"racer@10.98.3.2\"\nkey = \"{key}\"\nssh_options = [\"-oStrictHostKeyChecking=accept-new\", \
         \"-oUserKnownHostsFile={known}\", \"-oProxyCommand=ssh -i {key} -oUserKnownHostsFile={known} -W %h:%p \
         racer@10.98.1.2\"]\n",
        key = key.display(),
        known = known.display()
    );
    let file = lab.bench.write("jump.toml", &hosts);
    let checked = lab.run(&[
        "hosts",
        "check",
        "behind",
        "--hosts-file",
        &file.to_string_lossy(),
    ]);
    succeeds(&checked);
    assert!(text(&checked).contains("SSH goes from 10.98.3.1 to 10.98.3.2"));
}
