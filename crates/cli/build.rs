//! Packs the program's relocations, and passes on facts about its build: commit, whether the sources
//! differ from it, profile, digest of the lock file, compiler, and the text of `--version`. Facts that
//! cannot be found are `unknown`; a difference is never overlooked.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Sources of the program, as git path patterns from the workspace: of the crates all but tests and
/// examples.
const SOURCES: [&str; 9] = [
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    ".cargo",
    "crates",
    "scripts/crypto.cmake",
    "studies",
    ":(exclude,glob)crates/**/examples/**",
    ":(exclude,glob)crates/**/tests/**",
];

const UNKNOWN: &str = "unknown";

/// Environment variable with the date of the build, in seconds since the Unix epoch:
/// <https://reproducible-builds.org/specs/source-date-epoch/>.
const DATE_VARIABLE: &str = "SOURCE_DATE_EPOCH";

fn main() {
    pack_relocations();
    let root = Path::new("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("a directory"));
    let source = Source::of(root, &out);
    for path in source.watched.iter().filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let digest = output(Command::new("sha256sum").arg(root.join("Cargo.lock")));
    let digest = digest.and_then(|text| Some(text.split_whitespace().next()?.to_owned()));
    let compiler = output(Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("-V"));
    // PROFILE/build/PACKAGE/out.
    let profile = out.ancestors().nth(3).and_then(Path::file_name);
    let profile = profile.map(|name| name.to_string_lossy().into_owned());
    println!("cargo:rerun-if-env-changed={DATE_VARIABLE}");
    let package = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let version = version(&package, &source, root, env::var(DATE_VARIABLE).ok());
    for (name, value) in [
        ("VERSION", Some(version)),
        ("COMMIT", source.commit),
        ("DIRTY", Some(source.dirty.to_owned())),
        ("PROFILE", profile),
        ("LOCKFILE", digest),
        ("COMPILER", compiler),
    ] {
        let value = value.filter(|value| !value.trim().is_empty());
        let value = value.as_deref().map_or(UNKNOWN, str::trim);
        println!("cargo:rustc-env=REGATTA_BUILD_{name}={value}");
    }
}

/// Returns what `regatta --version` prints after the name: version, commit (with `-dirty` if the sources differ from it)
/// and date. The date is `epoch`, in seconds since the Unix epoch, or else the one of the commit, so that the same sources
/// make the same program, and that a build on another day compiles nothing.
pub fn version(package: &str, source: &Source, root: &Path, epoch: Option<String>) -> String {
    let commit = source.commit.as_deref().unwrap_or(UNKNOWN);
    let commit = commit.get(..12).unwrap_or(commit);
    let mark = if source.dirty == "yes" { "-dirty" } else { "" };
    let of_commit = || output(&mut git(root, &["log", "-1", "--format=%ct"]));
    let epoch = epoch.or_else(|| source.commit.as_ref().and_then(|_| of_commit()));
    let date = epoch.and_then(|epoch| {
        let moment = format!("@{}", epoch.trim());
        output(Command::new("date").args(["--utc", "+%F", "--date", &moment]))
    });
    let date = date.as_deref().map_or("date unknown", str::trim);
    format!("{package} ({commit}{mark} {date})")
}

/// Has the linker pack the addresses that a position-independent program corrects at its start (`DT_RELR`): the file is
/// 2 MB smaller, and starts in half the time on a slow host. The C library that is linked in must be glibc 2.36 or newer.
fn pack_relocations() {
    let is_native = env::var("HOST") == env::var("TARGET");
    let version = output(Command::new("getconf").arg("GNU_LIBC_VERSION"));
    let version = version.and_then(|text| {
        let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    if is_native && version.is_some_and(|version| version >= (2, 36)) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Facts about the sources, and the files that change with them.
pub struct Source {
    /// Commit that is checked out; `None` outside a checkout of this workspace.
    pub commit: Option<String>,
    /// Whether the sources differ from the commit: `yes`, `no` or `unknown`.
    pub dirty: &'static str,
    /// Files and directories that cargo checks before the next build.
    pub watched: Vec<PathBuf>,
}

impl Source {
    /// Inspects the workspace `root`, which is built into the build directory that contains `out`.
    pub fn of(root: &Path, out: &Path) -> Self {
        // Relative, so that a build directory that several clones share is looked at with this clone's
        // files. Without tests: they change without changing the program.
        let mut watched: Vec<PathBuf> = (SOURCES.iter())
            .filter(|path| !path.starts_with(':') && **path != "crates")
            .map(|path| root.join(path))
            .collect();
        crates(&root.join("crates"), &mut watched);
        let commit = output(&mut git(root, &["rev-parse", "--show-cdup", "HEAD"]));
        // Sources in somebody else's repository have a way up to it in the first line, where this
        // one's root has nothing.
        let commit = commit.and_then(|text| Some(text.strip_prefix('\n')?.trim().to_owned()));
        let dirty = match &commit {
            Some(_) if !holds_another_clone(root, out) => dirty(root),
            _ => UNKNOWN,
        };
        if commit.is_some() {
            watched.extend(head(root));
        }
        Self {
            commit,
            dirty,
            watched,
        }
    }
}

/// Adds those parts of every crate below a directory that the program is made of.
fn crates(dir: &Path, watched: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.join("Cargo.toml").exists() {
            watched.extend(["Cargo.toml", "build.rs", "src"].map(|part| path.join(part)));
        } else if path.is_dir() {
            crates(&path, watched);
        }
    }
}

/// Returns the files that change when another commit is checked out: the log of `HEAD` if there is
/// one, `HEAD` itself, and the reference of its branch.
fn head(root: &Path) -> Vec<PathBuf> {
    let git_path = |name: &str| {
        let path = output(&mut git(root, &["rev-parse", "--git-path", name]))?;
        Some(root.join(path.trim()))
    };
    let log = git_path("logs/HEAD").filter(|path| path.exists());
    let branch = output(&mut git(root, &["symbolic-ref", "--quiet", "HEAD"]));
    let branch = branch.and_then(|name| git_path(name.trim()));
    log.into_iter()
        .chain(git_path("HEAD"))
        .chain(branch)
        .collect()
}

/// Whether the sources differ from the commit: `yes`, `no` or `unknown`.
fn dirty(root: &Path) -> &'static str {
    let mut status = git(
        root,
        &["status", "--porcelain", "--untracked-files=all", "--"],
    );
    match output(status.args(SOURCES)) {
        Some(changes) if changes.is_empty() => "no",
        Some(_) => "yes",
        None => UNKNOWN,
    }
}

/// Whether this build directory was ever used by another clone. Cargo compares modification times,
/// so some crates may then come from that clone, even for the first clone. `make` removes them, and
/// the note of this function with them.
fn holds_another_clone(root: &Path, out: &Path) -> bool {
    let marker = out.join("workspace");
    let Ok(root) = fs::canonicalize(root) else {
        return true;
    };
    let root = root.to_string_lossy();
    match fs::read_to_string(&marker) {
        Ok(first) if first == root => false,
        Ok(_) => {
            // This text is not the path of a workspace.
            let _ = fs::write(marker, "several clones");
            true
        }
        Err(_) => fs::write(marker, root.as_bytes()).is_err(),
    }
}

/// Returns a git command in the workspace, without the environment variables of a hook that runs
/// the build.
fn git(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command
        .current_dir(root)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args(arguments);
    command
}

/// Returns the output of a command; `None` if it cannot be started or fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}
