//! Beds of a user who is not root, and the errors where such a bed cannot be made.
//!
//! Needs root, to become somebody else and to arrange a device node in a mount namespace of its
//! own; the machine's own `/dev/net/tun` is left as it is. Where the tests are run by an ordinary
//! user, every other test of this crate is already that user's.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    process::{Command, Output, Stdio},
};

use crate::common::executable;

/// Copies the host program to where any user can run it and returns the shell command that runs its
/// `check` as user 65534; `None` if this is not root.
fn check_as_nobody() -> Option<(tempfile::TempDir, String)> {
    if !nix::unistd::geteuid().is_root() {
        println!("not root: the other tests have been run as an ordinary user");
        return None;
    }
    // The build directory may be closed to others.
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("open to all");
    let program = directory.path().join("host");
    fs::copy(executable(), &program).expect("a copy");
    let command = format!(
        "exec setpriv --reuid 65534 --regid 65534 --clear-groups '{}' check",
        program.display()
    );
    Some((directory, command))
}

fn text_of(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns what `check` prints in a mount namespace that the shell command `prepare` has prepared.
fn as_nobody(prepare: &str) -> Option<String> {
    let (_directory, check) = check_as_nobody()?;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-euc", &format!("{prepare}\n{check}")])
        .output()
        .expect("`unshare` runs");
    Some(text_of(&output))
}

/// Returns the shell command that replaces `/dev/net` by one with what `nodes` makes in it, in this
/// mount namespace only.
fn devices(nodes: &str) -> String {
    format!("mkdir -p /dev/net; mount -t tmpfs tmpfs /dev/net; {nodes}")
}

#[test]
fn an_ordinary_user_can_use_all_of_the_bed() {
    let Some(text) = as_nobody(&devices("mknod -m 0666 /dev/net/tun c 10 200")) else {
        return;
    };
    for name in [
        "round_trip_delay_mean_ns asked 30000000 ",
        "forward_link_rate_bps asked 100000000 ",
    ] {
        assert!(text.contains(name), "{name}");
    }
    let received = text.lines().find_map(|line| line.strip_prefix("received "));
    let bytes: Option<u64> = received.and_then(|r| r.split(' ').next()?.parse().ok());
    // A second at 100 Mbit/s is 12.5 MB; that data flowed at all is the point here.
    assert!(bytes.is_some_and(|bytes| bytes > 1_000_000), "{received:?}");
}

#[test]
fn a_device_without_permission_is_reported_with_a_remedy() {
    let Some(text) = as_nobody(&devices("mknod -m 0600 /dev/net/tun c 10 200")) else {
        return;
    };
    assert!(text.contains("caused by: cannot open `/dev/net/tun`\ncaused by: Permission denied"));
    assert!(text.contains("hint: ") && text.contains("`sudo chmod 666 /dev/net/tun`"));
}

#[test]
fn a_missing_device_is_reported_with_a_remedy() {
    let Some(text) = as_nobody(&devices("true")) else {
        return;
    };
    assert!(text.contains("caused by: cannot open `/dev/net/tun`\ncaused by: No such file"));
    assert!(text.contains("sudo mknod -m 0666 /dev/net/tun c 10 200"));
}

/// The limit is that of a user namespace of the test's own; the machine's is left as it is.
#[test]
fn forbidden_user_namespaces_are_reported_with_a_remedy() {
    let Some((_directory, check)) = check_as_nobody() else {
        return;
    };
    // A program that starts once its user is mapped has that user's rights in the namespace.
    let script = "echo ready; read mapped; exec sh -euc \"$0\"";
    let limited = format!("echo 0 > /proc/sys/user/max_user_namespaces; {check}");
    let mut shell = Command::new("unshare")
        .args(["--user", "sh", "-euc", script, &limited])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`unshare` runs");
    let mut output = BufReader::new(shell.stdout.take().expect("a pipe"));
    let mut text = String::new();
    output.read_line(&mut text).expect("a line");
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{}/{map}", shell.id()), "0 0 65536").expect("a map");
    }
    let mut input = shell.stdin.take().expect("a pipe");
    writeln!(input, "mapped").expect("the shell listens");
    output.read_to_string(&mut text).expect("its output");
    shell.wait().expect("an end");
    println!("{text}");
    assert!(text.contains("caused by: cannot make a user namespace\n"));
    assert!(text.contains("`sudo sysctl -w user.max_user_namespaces="));
}
