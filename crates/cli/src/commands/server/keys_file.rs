//! File of the secret and the key of a server.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nix::fcntl::OFlag;

use crate::{
    exit::{Failure, OrFailure as _, Result, refuse},
    pinned_tls::keys::ServerKeys,
};

/// Beginning of the file, with the version of its form.
const HEAD: &str = "regatta-server-key-1 ";

/// Makes a new secret and a new key.
pub fn generate() -> ServerKeys {
    ServerKeys {
        secret: rand::random(),
        seed: rand::random(),
    }
}

/// Reads the file, or makes it, readable for its owner alone.
///
/// # Errors
/// A file that others can read, that is none, or that cannot be made.
pub fn read_or_make(path: &Path) -> Result<ServerKeys> {
    // A pipe is not waited for.
    let mut options = File::options();
    let open = (options.read(true))
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path);
    let result = match open {
        Ok(file) => return read(file, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path),
        Err(error) => Err(error),
    };
    let doing = format!("cannot use `{}` as the file of the key", path.display());
    result
        .bad()
        .context(doing)
        .hint("name a file of this user, or one that is not there, in a directory that exists: it is made")
}

fn make(path: &Path) -> io::Result<ServerKeys> {
    let keys = generate();
    let bytes = [&keys.secret[..], &keys.seed].concat();
    let mut new = File::options();
    let mut file = new.write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{HEAD}{}", STANDARD.encode(bytes))?;
    file.sync_all()?;
    Ok(keys)
}

fn read(mut file: File, path: &Path) -> Result<ServerKeys> {
    let shown = path.display();
    let metadata = file.metadata()?;
    let mode = metadata.permissions().mode();
    refuse! {
        !metadata.is_file() => "`{shown}` is no file";
            "name a file that is not there: it is made";
        mode & 0o077 != 0 => "`{shown}` holds a secret, and others than its owner may read it";
            "run `chmod 600 {shown}`";
    }
    let mut text = String::new();
    let read = (&mut file).take(1024).read_to_string(&mut text);
    let keys = read.ok().and_then(|_| {
        let bytes = STANDARD.decode(text.trim().strip_prefix(HEAD)?).ok()?;
        let (secret, seed) = bytes.split_first_chunk()?;
        Some(ServerKeys {
            secret: *secret,
            seed: seed.try_into().ok()?,
        })
    });
    keys.ok_or_else(|| {
        Failure::input(
            format!("`{shown}` is no file of a server's key"),
            "name a file that is not there: it is made",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn key_file_is_stable_and_private() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("server.key");
        let Ok(created) = read_or_make(&path) else {
            panic!("it can be made");
        };
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let Ok(read) = read_or_make(&path) else {
            panic!("it can be read");
        };
        assert_eq!((created.secret, created.seed), (read.secret, read.seed));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("its owner may");
        assert!(read_or_make(&path).is_err(), "others can read it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its owner may");
        let Err(failure) = read_or_make(&directory.path().join("missing").join("key")) else {
            panic!("its directory is missing");
        };
        assert!(failure.message_and_hint().1.contains("it is made"));
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let Err(failure) = read_or_make(&pipe) else {
            panic!("it is a pipe");
        };
        assert!(failure.message_and_hint().0.contains("is no file"));
        fs::write(&path, "x").expect("its owner may");
        assert!(read_or_make(&path).is_err(), "it is none");
    }
}
