//! Tests of hosts that are reached by SSH: two machines with a real `sshd`, in namespaces or in guests with a kernel of
//! their own, and a third for the controller. They need root, and say so where they do not have it.

mod accounts;
mod clocks;
mod disturbances;
mod firewall;
mod guests;
mod live;
mod matrix;
mod samples;
mod stops;

use std::{
    error::Error,
    fs,
    io::{self, BufRead, BufReader, Write as _},
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use flate2::read::MultiGzDecoder;
use regatta_process::StopRequest;
use regatta_ssh::AgentFile;
use regatta_test_support::{
    processes::{running_with, surviving_with},
    test_run::{once_per_test_run, test_run_directory},
};

use crate::help::{Bench, root};

/// Longest time for anything that is waited for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Time after which nothing of Regatta may be left on a host that has lost its controller.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(15);

/// Hosts `a` and `b`, and the place of the controller.
struct Lab {
    bench: Bench,
    /// Password of the hosts' user, another one in each test.
    password: String,
    /// Directory of the machines: that of `bench`, unless this lab is another process's.
    directory: PathBuf,
    /// Process that ends the machines with its standard input; `None` in a lab of another process.
    machines: Option<Child>,
    /// Process in whose network the controller is.
    controller: i32,
    /// SSH destinations and data addresses of both.
    ways: [(&'static str, &'static str); 2],
}

impl Lab {
    /// Starts hosts in namespaces, to which Regatta was sent before; `None` without the rights for it.
    fn start() -> Option<Self> {
        let lab = Self::start_empty()?;
        if let Some(program) = program_on_hosts() {
            for host in ["a", "b"] {
                let mut directory = lab.home(host);
                for name in [".cache", "regatta", "agents"] {
                    directory.push(name);
                    fs::create_dir(&directory).expect("a directory");
                    chown(&directory, Some(RACER), Some(RACER)).expect("a directory");
                }
                directory.push(program.file_name().expect("a name"));
                fs::hard_link(&program, directory).expect("a file");
            }
        }
        Some(lab)
    }

    /// Starts hosts in namespaces, to which Regatta is still to be sent; `None` without the rights for it.
    fn start_empty() -> Option<Self> {
        has_rights().then(|| {
            Self::of(
                concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/hosts.sh"),
                Bench::new(),
                [
                    ("racer@10.98.1.2", "10.98.3.1"),
                    ("racer@10.98.2.2", "10.98.3.2"),
                ],
            )
        })
    }

    /// Starts the hosts that a script makes in the directory of `bench`.
    fn of(script: &str, bench: Bench, ways: [(&'static str, &'static str); 2]) -> Self {
        let password = format!("correct-horse-{}", std::process::id());
        // The hosts' users have to reach their homes in it.
        let open = fs::Permissions::from_mode(0o711);
        fs::set_permissions(bench.path("."), open).expect("a directory");
        fs::create_dir(bench.path("home")).expect("a directory");
        let directory = bench.path("home").parent().expect("a directory").to_owned();
        let mut machines = bench
            .command("unshare")
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "--propagation", "private", "bash"])
            .arg(script)
            .arg(&directory)
            .arg(&password)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut line = String::new();
        let out = machines.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        let controller = regatta_process::children(machines.id().cast_signed())[0];
        Self {
            directory,
            bench,
            password,
            machines: Some(machines),
            controller,
            ways,
        }
    }

    /// Returns a `regatta` command of the controller, with a home of its own.
    fn regatta(&self, args: &[&str]) -> Command {
        let mut command = self.bench.command("nsenter");
        command
            .args(["--target", &self.controller.to_string(), "--net", "--"])
            .arg(env!("CARGO_BIN_EXE_regatta"))
            .args(args)
            .env("HOME", self.bench.path("home"))
            .env_remove("XDG_CONFIG_HOME")
            .env("XDG_CACHE_HOME", shared_cache(&self.bench))
            .env_remove("SSH_AUTH_SOCK");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.regatta(args).output().expect("nsenter")
    }

    /// Returns the command that adds a host, with a password on its standard input.
    fn add(&self, name: &str, password: &str, more: &[&str]) -> Output {
        let (host, data) = self.ways[usize::from(name == "b")];
        let known = format!(
            "--ssh-option=-oUserKnownHostsFile={}",
            self.bench.path("known").display()
        );
        let mut add = self
            .regatta(&["hosts", "add", name, host, "--address", data])
            .args(["--password-fd", "0", &known])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nsenter");
        let mut input = add.stdin.take().expect("a pipe");
        writeln!(input, "{password}").expect("a pipe");
        drop(input);
        add.wait_with_output().expect("an end")
    }

    /// Adds both hosts with two commands at the same time, which make one key and write one file.
    fn add_both(&self) {
        std::thread::scope(|scope| {
            for name in ["a", "b"] {
                scope.spawn(move || {
                    succeeds(&self.add(name, &self.password, &["--accept-new"]));
                });
            }
        });
    }

    /// Returns the command of a short run on both hosts.
    fn race(&self, out: &str, more: &[&str]) -> Command {
        let mut command = self.regatta(&["run", "--hosts", "a,b", "--out", out]);
        command
            .args(["--transport", "tcp:cc=reno", "--size", "1MB"])
            .args(["--no-progress"])
            .args(more);
        command
    }

    fn home(&self, host: &str) -> PathBuf {
        self.bench.path(host).join("home/racer")
    }

    fn keys(&self, host: &str) -> String {
        fs::read_to_string(self.home(host).join(".ssh/authorized_keys")).unwrap_or_default()
    }

    /// Returns the processes of Regatta on both hosts.
    fn on_hosts(&self) -> Vec<i32> {
        let marks = ["a", "b"].map(|host| self.home(host).join(".cache/regatta"));
        let mut found = running_with(&marks[0].to_string_lossy());
        found.extend(running_with(&marks[1].to_string_lossy()));
        found
    }

    /// Runs a command in a host's network.
    fn on_host(&self, host: &str, command: &str) {
        // The number is that of the namespace in which the hosts were started.
        let pid = fs::read_to_string(self.bench.path(host).join("pid")).expect("a number");
        let status = Command::new("nsenter")
            .args([
                "--target",
                &self.controller.to_string(),
                "--pid",
                "--mount",
                "--",
            ])
            .args(["nsenter", "--target", pid.trim(), "--net", "--"])
            .args(["sh", "-e", "-c", command])
            .status();
        assert!(status.expect("nsenter").success(), "{command}");
    }

    /// Runs a command in the controller's network.
    fn in_network(&self, command: &str) {
        let status = Command::new("nsenter")
            .args(["--target", &self.controller.to_string(), "--net", "--"])
            .args(["sh", "-c", command])
            .status();
        assert!(status.expect("nsenter").success(), "{command}");
    }
}

/// User and group of `racer`.
const RACER: u32 = 4242;

/// Returns whether this test may make hosts, and says if it may not.
fn has_rights() -> bool {
    let may = root();
    if !may {
        eprintln!("not tested: hosts in namespaces of their own need root");
    }
    may
}

/// Returns Regatta's program as it is on a host to which it was sent, with the name that it has there. All tests of a test
/// run share it: sending it takes seconds of a processor. `None` without a directory of the test run.
fn program_on_hosts() -> Option<PathBuf> {
    let cache = test_run_directory()?.join("cli-hosts-cache/regatta/agents");
    let unpack = |directory: &Path| -> Result<(), Box<dyn Error>> {
        let executable = Path::new(env!("CARGO_BIN_EXE_regatta"));
        let file = AgentFile::prepare(executable, &cache, &StopRequest::default())?;
        let program = directory.join(file.digest);
        let mut compressed = MultiGzDecoder::new(fs::File::open(file.compressed)?);
        io::copy(&mut compressed, &mut fs::File::create(&program)?)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700))?;
        Ok(chown(&program, Some(RACER), Some(RACER))?)
    };
    Some(once_per_test_run(
        "cli-hosts-program",
        |directory| unpack(directory).map_err(|error| error.to_string()),
        |directory| {
            let mut programs = fs::read_dir(directory).expect("a directory");
            programs.next().expect("a program").expect("a file").path()
        },
    ))
}

/// Returns the directory of the file that is sent to hosts, which all tests of a test run share: making it takes a
/// processor for seconds.
fn shared_cache(bench: &Bench) -> PathBuf {
    test_run_directory().map_or_else(
        || bench.path("home/.cache"),
        |shared| shared.join("cli-hosts-cache"),
    )
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut machines) = self.machines.take() {
            // The end of its input ends it, and with it both hosts.
            drop(machines.stdin.take());
            let _ = machines.wait();
        }
    }
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

#[track_caller]
fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", text(output));
}

#[track_caller]
fn assert_fails(output: &Output, with: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", text(output));
    assert!(text(output).contains(with), "{}", text(output));
}

#[track_caller]
fn eventually(within: Duration, condition: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + within;
    loop {
        // A look that begins in time may end later.
        let is_last = Instant::now() >= until;
        if holds() {
            return;
        }
        assert!(!is_last, "still not after {within:?}: {condition}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_hosts_are_added_by_password_and_run_a_study() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    // One takes passwords, the other keyboard-interactive alone.
    lab.add_both();
    for host in ["a", "b"] {
        let keys = lab.keys(host);
        assert!(keys.starts_with("restrict ssh-ed25519 "), "{keys}");
        assert_eq!(keys.lines().count(), 1);
    }
    succeeds(&lab.race("out", &["--rounds", "1"]).output().expect("a run"));
    let report = fs::read_to_string(lab.bench.path("out/report.html")).expect("a report");
    assert!(report.contains("path as it is"));
    assert!(report.contains("Hosts over time"));
    let csv = fs::read_to_string(lab.bench.path("out/hosts.csv")).expect("samples");
    for of in ["sender,0,", "sender,,", "receiver,0,", "receiver,,"] {
        assert!(csv.lines().any(|line| line.starts_with(of)), "{of}: {csv}");
    }
    eventually(CLEANUP_TIMEOUT, "nothing is left on the hosts", || {
        lab.on_hosts().is_empty()
    });
}

#[test]
fn a_host_is_added_again_and_removed() {
    let Some(lab) = Lab::start() else { return };
    succeeds(&lab.add("a", &lab.password, &["--accept-new"]));
    fs::write(
        lab.home("a").join(".ssh/authorized_keys"),
        format!("# mine\n{}", lab.keys("a")),
    )
    .expect("a file");
    succeeds(&lab.add("a", "not needed", &[]));
    assert_eq!(lab.keys("a").lines().count(), 2);
    // The account has another name, which needs the key.
    succeeds(&lab.add("again", "not needed", &[]));
    let removed = lab.run(&["hosts", "remove", "again"]);
    succeeds(&removed);
    assert!(text(&removed).contains("stays there for `a`"));
    assert_eq!(lab.keys("a").lines().count(), 2);
    succeeds(&lab.run(&["hosts", "remove", "a"]));
    assert_eq!(lab.keys("a"), "# mine\n");
    let file = lab.bench.path("home/.config/regatta/hosts.toml");
    assert_eq!(fs::read_to_string(file).expect("a file"), "");
}

#[test]
fn a_wrong_password_leaves_nothing() {
    let Some(lab) = Lab::start() else { return };
    for host in ["a", "b"] {
        let added = lab.add(host, "wrong", &["--accept-new"]);
        assert_fails(&added, "the host refused the password");
        assert_fails(&added, "Permission denied (");
        assert_fails(&added, &format!("`regatta hosts script {host}`"));
        assert_eq!(lab.keys(host), "");
    }
    assert!(!lab.bench.path("home/.config/regatta/hosts.toml").exists());
}

#[test]
fn an_unknown_host_is_confirmed_by_its_fingerprint() {
    let Some(lab) = Lab::start() else { return };
    let unconfirmed = lab.add("a", &lab.password, &[]);
    assert_fails(&unconfirmed, "was not confirmed");
    let output = text(&unconfirmed);
    assert!(output.contains("give `--fingerprint SHA256:"), "{output}");
    let wrong = lab.add("a", &lab.password, &["--fingerprint", "SHA256:wrong"]);
    assert_fails(&wrong, "hint: make sure that it is the host");
    let output = text(&wrong);
    let right = output.split("--fingerprint ").nth(1).expect("a hint");
    let right = right.split('`').next().expect("a fingerprint");
    succeeds(&lab.add("a", &lab.password, &["--fingerprint", right]));
    // The host is known by now.
    let wrong = lab.add("a", &lab.password, &["--fingerprint", "SHA256:wrong"]);
    assert_fails(&wrong, "hint: make sure that it is the host");
}

#[test]
fn changed_host_key_stops_with_the_message_of_ssh() {
    let Some(lab) = Lab::start() else { return };
    succeeds(&lab.add("a", &lab.password, &["--accept-new"]));
    let other = fs::read_to_string(lab.bench.path("b/etc/hostkey.pub")).expect("a key");
    lab.bench.write("known", &format!("10.98.1.2 {other}"));
    let added = lab.add("a", &lab.password, &["--accept-new"]);
    assert_fails(&added, "REMOTE HOST IDENTIFICATION HAS CHANGED");
    assert!(!text(&added).contains('\u{fffd}'), "{}", text(&added));
    let checked = lab.run(&["hosts", "check", "a"]);
    assert_fails(&checked, "REMOTE HOST IDENTIFICATION HAS CHANGED");
    assert_fails(&checked, "Host key for 10.98.1.2 has changed");
    let known = lab.bench.path("known").display().to_string();
    for output in [&added, &checked] {
        let output = text(output);
        let hint = output.rsplit_once("hint: ").expect("a hint").1;
        let command = hint.split('`').nth(1).expect("a command");
        assert!(command.starts_with("ssh-keygen -f "), "{output}");
        let removed = lab.bench.command("sh").args(["-c", command]).output();
        succeeds(&removed.expect("a shell"));
        assert_eq!(fs::read_to_string(&known).expect("a file"), "", "{output}");
        lab.bench.write("known", &format!("10.98.1.2 {other}"));
    }
}

#[test]
fn script_installs_the_key_without_a_password() {
    let Some(lab) = Lab::start() else { return };
    let script = lab.run(&["hosts", "script", "a"]);
    succeeds(&script);
    let script = lab.bench.write("script", &text(&script));
    let ran = Command::new("setpriv")
        .args(["--reuid", "4242", "--regid", "4242", "--clear-groups", "sh"])
        .stdin(fs::File::open(script).expect("a script"))
        .env("HOME", lab.home("a"))
        .output()
        .expect("setpriv");
    succeeds(&ran);
    succeeds(&lab.add("a", "not needed", &["--accept-new"]));
}

#[test]
fn home_writable_by_others_is_reported() {
    let Some(lab) = Lab::start() else { return };
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(lab.home("a"), open).expect("a directory");
    let added = lab.add("a", &lab.password, &["--accept-new"]);
    assert_fails(&added, "the host has the key and refuses it");
    assert!(text(&added).contains("`chmod go-w .`"), "{}", text(&added));
}

#[test]
fn login_script_output_is_ignored_and_a_failed_upload_is_reported() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    lab.add_both();
    let noise = "head -c 65536 /dev/zero | tr '\\0' x; echo; echo noise >&2\n";
    fs::write(lab.home("a").join(".bashrc"), noise).expect("a file");
    succeeds(&lab.run(&["hosts", "check", "a"]));
    // A cache that takes no file of this size.
    let limited = format!("{noise}ulimit -f 100\n");
    fs::write(lab.home("a").join(".bashrc"), limited).expect("a file");
    fs::remove_dir_all(lab.home("a").join(".cache")).expect("a directory");
    let full = lab.run(&["hosts", "check", "a"]);
    assert_eq!(full.status.code(), Some(1), "{}", text(&full));
    assert!(
        text(&full).contains("cannot reach host `a`"),
        "{}",
        text(&full)
    );
}

#[test]
fn another_version_on_the_host_is_refused() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let old = lab.home("a").join("old");
    fs::write(&old, "#!/bin/sh\necho regatta-session 0 0.0.9 1\n").expect("a file");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).expect("a file");
    let file = lab.bench.path("home/.config/regatta/hosts.toml");
    let hosts = fs::read_to_string(&file).expect("a file");
    let agent = format!("[a]\nagent = \"{}\"", old.display());
    fs::write(&file, hosts.replace("[a]", &agent)).expect("a file");
    let checked = lab.run(&["hosts", "check", "a"]);
    assert_fails(&checked, "Regatta 0.0.9 on the host");
    assert!(text(&checked).contains("leave `agent` of `a` out"));
    fs::remove_file(&old).expect("a file");
    assert_fails(
        &lab.run(&["hosts", "check", "a"]),
        "on `a` is a Regatta which this user may execute, or leave `agent` out",
    );
}

#[test]
fn the_password_is_in_no_command_line_environment_or_file() {
    let Some(lab) = Lab::start_empty() else {
        return;
    };
    let searched = std::sync::atomic::AtomicU64::new(0);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    use std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        let searching = scope.spawn(|| {
            // The script that made the hosts was given it.
            let own = lab.machines.as_ref().expect("a process").id().cast_signed();
            let makers = [own, lab.controller];
            while !is_over.load(SeqCst) {
                for process in fs::read_dir("/proc").expect("/proc").flatten() {
                    let number = process.file_name().to_string_lossy().parse().unwrap_or(0);
                    if number == 0 || makers.contains(&number) {
                        continue;
                    }
                    for part in ["cmdline", "environ"] {
                        let bytes = fs::read(process.path().join(part)).unwrap_or_default();
                        let found = String::from_utf8_lossy(&bytes).contains(&lab.password);
                        assert!(!found, "{part} of {number}");
                    }
                }
                searched.fetch_add(1, SeqCst);
            }
        });
        lab.add_both();
        is_over.store(true, SeqCst);
        searching.join().expect("no password");
    });
    assert!(searched.load(SeqCst) > 2);
    assert!(!holds(lab.bench.path(".").as_path(), &lab.password));
}

/// Whether a file below a directory contains a text.
fn holds(directory: &Path, text: &str) -> bool {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    entries.into_iter().any(|entry| {
        let path = entry.path();
        match path.is_dir() && !path.is_symlink() {
            true => holds(&path, text),
            false => {
                let bytes = fs::read(&path).unwrap_or_default();
                bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            }
        }
    })
}

#[test]
fn nothing_is_left_on_the_hosts_when_the_controller_is_killed() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let mut run = lab
        .race("out", &["--rounds", "1000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a run");
    eventually(TIMEOUT, "a trial", || {
        lab.on_hosts().len() >= 8 && lab.bench.path("out/results.sqlite").exists()
    });
    run.kill().expect("a signal");
    run.wait().expect("an end");
    eventually(CLEANUP_TIMEOUT, "nothing is left on the hosts", || {
        lab.on_hosts().is_empty()
    });
}

#[test]
fn cut_link_fails_one_trial_and_the_run_continues() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let mut run = lab
        .race("out", &["--rounds", "10", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a run");
    let mut out = BufReader::new(run.stdout.take().expect("a pipe"));
    let mut trials = 0;
    let mut invalid = 0;
    let mut line = String::new();
    while out.read_line(&mut line).expect("a line") > 0 {
        if line.contains("\"trial_ended\"") {
            trials += 1;
            invalid += u32::from(line.contains("\"invalid\""));
            if trials == 3 {
                lab.in_network("ip link set manage2 down; (sleep 7; ip link set manage2 up) &");
            }
        }
        line.clear();
    }
    let run = run.wait_with_output().expect("an end");
    succeeds(&run);
    assert!(trials > 10 && invalid >= 1, "{trials} {invalid}");
}

#[test]
fn files_are_sent_to_a_host_by_its_name() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    // The controller cannot reach the address of the transfers between the hosts.
    let file = lab.bench.path("home/.config/regatta/hosts.toml");
    let hosts = fs::read_to_string(&file).expect("a file");
    fs::write(&file, hosts.replace("address = \"10.98.3.1\"\n", "")).expect("a file");
    fs::create_dir(lab.bench.path("tree")).expect("a directory");
    let content = vec![b'x'; 3_000_000];
    fs::write(lab.bench.path("tree/file"), &content).expect("a file");
    succeeds(&lab.run(&["wdt", "send", "tree", "a:incoming", "--no-progress"]));
    let arrived = fs::read(lab.home("a").join("incoming/file")).expect("a file");
    assert!(arrived == content);
    let again = lab.run(&["wdt", "send", "tree", "a:incoming", "--no-progress"]);
    assert!(!again.status.success(), "{}", text(&again));
    eventually(CLEANUP_TIMEOUT, "nothing is left on the hosts", || {
        lab.on_hosts().is_empty()
    });
}

#[test]
fn an_interface_is_shaped_by_root_alone() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    let file = lab.bench.path("home/.config/regatta/hosts.toml");
    let mut hosts = fs::read_to_string(&file).expect("a file");
    for host in ["a", "b"] {
        hosts.push_str(&format!(
            "[{host}.shaping]\nattach = \"interface\"\nparent = \"data\"\n"
        ));
    }
    fs::write(&file, hosts).expect("a file");
    let listed = lab.run(&["hosts", "list"]);
    assert!(
        text(&listed).contains("shaped on `data`"),
        "{}",
        text(&listed)
    );
    let run = lab.race("out", &["--rtt", "30ms"]).output().expect("a run");
    let output = text(&run);
    assert!(!run.status.success(), "{output}");
    assert!(
        output.contains("host `a`: cannot shape the interface `data`"),
        "{output}"
    );
    assert!(output.contains("become = \"sudo -n\""), "{output}");
}

#[test]
fn hosts_that_are_not_named_or_do_not_fit_are_refused() {
    let bench = Bench::new();
    let hosts = bench.write("hosts.toml", "[lab1]\nssh = \"nobody@192.0.2.1\"\n");
    let hosts = hosts.to_string_lossy();
    for (args, message) in [
        (
            &["--bed", "hosts", "--transport", "tcp"][..],
            "none are named",
        ),
        (
            &["--bed", "netns", "--hosts", "lab1,local"],
            "`--hosts` is of the bed",
        ),
        (&["--hosts", "lab1,lab1"], "two different names"),
        (&["--hosts", "lab1,lap1"], "has no host `lap1`"),
        (&["--hosts", "lap1,local"], "did you mean `lab1`?"),
        (
            &["--hosts", "lab1,local", "--rtt", "30ms"],
            "has no `shaping`",
        ),
        (&["--hosts", "lab1,local", "--capture"], "run `tcpdump`"),
        (
            &["--hosts", "lab1,local", "--clock", "virtual"],
            "in the bed `uml` alone",
        ),
    ] {
        let mut all = vec!["run", "--hosts-file", &hosts];
        // The first that is reached is one that cannot be.
        all.extend(args);
        let output = bench.regatta(&all).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output));
        assert!(
            text(&output).contains(message),
            "{args:?}: {}",
            text(&output)
        );
    }
}
