//! Programs of external drivers on a host: sent once as a compressed archive, known by its digest.
//!
//! The controller starts `regatta host-files DIGEST BYTES` on the host, which prints the directory of the files at
//! once if it has them; otherwise it asks for them with an empty line, takes the archive from its standard input and
//! prints the directory then.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use flate2::{Compression, write::GzEncoder};
use regatta_model::directories;
use sha2::{Digest, Sha256};

use crate::cache::{hexadecimal, mark_used, prune, replace};

/// Hidden subcommand of `regatta` that receives the files of a program on a host.
pub const FILES_COMMAND: &str = "host-files";

/// Errors of packing files.
#[derive(Debug, thiserror::Error)]
#[error("cannot pack `{}`: {reason}", path.display())]
pub struct PackError {
    path: PathBuf,
    reason: String,
}

/// Files to send.
#[derive(Debug, Clone)]
pub struct Archive {
    /// SHA-256 of the archive, hexadecimal.
    pub digest: String,
    /// The archive: tar, compressed by gzip.
    pub content: Vec<u8>,
}

impl Archive {
    /// Packs a file or a directory tree. Equal files give equal archives.
    ///
    /// # Errors
    /// If a file cannot be read, or GNU tar is missing.
    pub fn pack(root: &Path) -> Result<Self, PackError> {
        let failed = |reason: String| PackError {
            path: root.to_owned(),
            reason,
        };
        let current = Path::new(".");
        let parent = root.parent().filter(|parent| *parent != Path::new(""));
        let (directory, name) = match root.is_dir() {
            true => (root, current.as_os_str()),
            false => (
                parent.unwrap_or(current),
                root.file_name().unwrap_or_default(),
            ),
        };
        let mut command = Command::new("tar");
        command
            .args(["--create", "--format=gnu", "--sort=name", "--mtime=@0"])
            .args(["--owner=0", "--group=0", "--numeric-owner"])
            .args(["--exclude=__pycache__", "--directory"])
            .arg(directory)
            .arg("--")
            .arg(name);
        let packed = command.output();
        let packed = packed.map_err(|error| failed(format!("cannot run `tar`: {error}")))?;
        if !packed.status.success() {
            let reason = String::from_utf8_lossy(&packed.stderr);
            return Err(failed(regatta_model::shell::printable(reason.trim())));
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(4));
        let content = encoder
            .write_all(&packed.stdout)
            .and_then(|()| encoder.finish())
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            digest: hexadecimal(&Sha256::digest(&content)),
            content,
        })
    }
}

/// Unpacks an archive from standard input unless its files exist, and prints their directory. Main function of
/// `regatta host-files DIGEST BYTES`.
#[must_use]
pub fn files_main(digest: Option<&str>, bytes: Option<&str>) -> ExitCode {
    let is_digest = |text: &&str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let bytes = bytes.and_then(|text| text.parse().ok());
    let (Some(digest), Some(bytes)) = (digest.filter(is_digest), bytes) else {
        eprintln!("error: `{FILES_COMMAND}` takes a digest and a number of bytes");
        return ExitCode::FAILURE;
    };
    let directory =
        cache().and_then(|cache| unpack_once(&cache, digest, bytes, &mut io::stdin().lock()));
    match directory.and_then(|directory| print_line(&directory.to_string_lossy())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Returns the directory of the files of all programs.
fn cache() -> io::Result<PathBuf> {
    let cache = directories::cache().map(|cache| cache.join("programs"));
    cache.ok_or_else(|| io::Error::other("there is no home directory"))
}

/// Returns the directory of the files of an archive, which is read from `input` unless they are there as they were unpacked.
fn unpack_once(
    cache: &Path,
    digest: &str,
    bytes: u64,
    input: &mut impl Read,
) -> io::Result<PathBuf> {
    let directory = cache.join(digest);
    let sums_file = cache.join(format!("{digest}.sums"));
    if fs::read_to_string(&sums_file).is_ok_and(|known| is_whole(&directory, &known)) {
        mark_used(&directory);
        mark_used(&sums_file);
        return Ok(directory);
    }
    print_line("")?;
    fs::create_dir_all(cache)?;
    // Removed at the end, whatever is in it still.
    let beside = tempfile::Builder::new()
        .prefix(digest)
        .suffix(".part")
        .tempdir_in(cache)?;
    let [part, damaged] = ["files", "damaged"].map(|name| beside.path().join(name));
    let placed = unpack(&part, digest, bytes, input).and_then(|()| {
        let sums = sums(&part)?;
        // Files of a directory that is there are not whole. A program that runs keeps those that it has open.
        let _ = fs::rename(&directory, &damaged);
        match fs::rename(&part, &directory) {
            // Another run was faster.
            Err(_) if directory.is_dir() => {}
            renamed => renamed?,
        }
        replace(cache, &sums_file, sums.as_bytes())
    });
    mark_used(&directory);
    prune(cache, |path| {
        fs::remove_dir_all(path).or_else(|_| fs::remove_file(path))
    });
    placed.map(|()| directory)
}

/// Returns the SHA-256 of each file below a directory, a line for each, after a line with that of all these lines.
fn sums(directory: &Path) -> io::Result<String> {
    fn add(root: &Path, below: &Path, lines: &mut Vec<String>) -> io::Result<()> {
        for entry in fs::read_dir(root.join(below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            match entry.file_type()?.is_dir() {
                true => add(root, &path, lines)?,
                false => lines.push(format!("{} {}", sum(&root.join(&path))?, path.display())),
            }
        }
        Ok(())
    }
    let mut lines = Vec::new();
    add(directory, Path::new(""), &mut lines)?;
    lines.sort();
    let lines = lines.join("\n");
    Ok(format!("{}\n{lines}", hexadecimal(&Sha256::digest(&lines))))
}

/// Returns the SHA-256 of a file, or of the target of a symbolic link.
fn sum(path: &Path) -> io::Result<String> {
    let content = match path.is_symlink() {
        true => fs::read_link(path)?.into_os_string().into_encoded_bytes(),
        false => fs::read(path)?,
    };
    Ok(hexadecimal(&Sha256::digest(content)))
}

/// Whether a directory has the files that were unpacked, as they were. A program may have written others.
fn is_whole(directory: &Path, sums: &str) -> bool {
    let Some((all, lines)) = sums.split_once('\n') else {
        return false;
    };
    let mut files = lines.lines().filter_map(|line| line.split_once(' '));
    all == hexadecimal(&Sha256::digest(lines))
        && files.all(|(known, path)| sum(&directory.join(path)).is_ok_and(|found| found == known))
}

/// Unpacks an archive of `bytes` bytes into a new directory, and checks its digest.
fn unpack(part: &Path, digest: &str, bytes: u64, input: &mut impl Read) -> io::Result<()> {
    fs::create_dir(part)?;
    let spawned = Command::new("tar")
        .args(["--extract", "--gzip", "--no-same-owner", "--file=-"])
        .arg("--directory")
        .arg(part)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let cannot_run = |error| io::Error::other(format!("cannot run `tar`: {error}"));
    let mut tar = spawned.map_err(cannot_run)?;
    let mut stdin = tar.stdin.take().expect("a pipe");
    let mut hasher = Sha256::new();
    let mut remaining = bytes;
    let mut block = vec![0; 64 << 10];
    let mut written = Ok(());
    while remaining > 0 {
        let limit = block
            .len()
            .min(usize::try_from(remaining).unwrap_or(usize::MAX));
        let length = input.read(&mut block[..limit])?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        remaining -= length as u64;
        hasher.update(&block[..length]);
        // Reads the rest after an error, too: standard error of `tar` has the reason.
        written = written.and_then(|()| stdin.write_all(&block[..length]));
    }
    drop(stdin);
    let output = tar.wait_with_output()?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("`tar` failed: {}", stderr.trim())));
    }
    written?;
    if hexadecimal(&hasher.finalize()) != digest {
        return Err(io::Error::other("the files arrived damaged"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn directory_is_unpacked_once_and_damage_is_detected() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("mine");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(root.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("library"), "content").unwrap();
        let archive = Archive::pack(&root).unwrap();
        assert_eq!(archive.digest, Archive::pack(&root).unwrap().digest);
        let cache = home.path().join("cache");
        let bytes = archive.content.len() as u64;
        let mut damaged = archive.content.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(unpack_once(&cache, &archive.digest, bytes, &mut &damaged[..]).is_err());
        assert!(unpack_once(&cache, &archive.digest, bytes, &mut &damaged[..9]).is_err());
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
        let unpacked =
            unpack_once(&cache, &archive.digest, bytes, &mut &archive.content[..]).unwrap();
        assert_eq!(
            fs::read_to_string(unpacked.join("library")).unwrap(),
            "content"
        );
        let mode = fs::metadata(unpacked.join("run")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o111, 0o111);
        // The input is not read again, also if a program has written a file there.
        fs::write(unpacked.join("written"), "").unwrap();
        let again = |mut input: &[u8]| unpack_once(&cache, &archive.digest, bytes, &mut input);
        assert_eq!(again(b"").unwrap(), unpacked);
        // A file that is damaged, and a list that is, are replaced.
        let sums = cache.join(format!("{}.sums", archive.digest));
        for damaged in [&unpacked.join("library"), &sums] {
            fs::write(damaged, "contenu").unwrap();
            assert!(again(b"").is_err());
            assert_eq!(again(&archive.content).unwrap(), unpacked);
            let library = fs::read_to_string(unpacked.join("library"));
            assert_eq!(library.unwrap(), "content");
            assert_eq!(fs::read_dir(&cache).unwrap().count(), 2);
        }
    }

    #[test]
    fn file_is_packed_without_its_siblings() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("run");
        fs::write(&file, "content").unwrap();
        fs::write(home.path().join("other"), "content").unwrap();
        let archive = Archive::pack(&file).unwrap();
        let cache = home.path().join("cache");
        let bytes = archive.content.len() as u64;
        let unpacked =
            unpack_once(&cache, &archive.digest, bytes, &mut &archive.content[..]).unwrap();
        assert_eq!(fs::read_dir(&unpacked).unwrap().count(), 1);
        assert!(Archive::pack(&home.path().join("none")).is_err());
    }
}
