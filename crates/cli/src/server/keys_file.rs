//! File of the secret and the key of a server.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    exit::Failure,
    pinned_tls::{
        keys::ServerKeys,
        token::{KEY_BYTES, SECRET_BYTES},
    },
};

/// Beginning of the file, with the version of its form.
const HEAD: &str = "regatta-server-key-1 ";

/// Makes a new secret and a new key.
///
/// # Errors
/// The system gives no random numbers.
pub fn generate() -> Result<ServerKeys, Failure> {
    let mut keys = ServerKeys {
        secret: [0; SECRET_BYTES],
        seed: [0; KEY_BYTES],
    };
    let mut random = File::open("/dev/urandom")?;
    random
        .read_exact(&mut keys.secret)
        .and_then(|()| random.read_exact(&mut keys.seed))?;
    Ok(keys)
}

/// Reads the file, or makes it, readable for its owner alone.
///
/// # Errors
/// A file that others can read, that is none, or that cannot be made.
pub fn read_or_make(path: &Path) -> Result<ServerKeys, Failure> {
    let shown = path.display();
    let failed = |error: io::Error| {
        Failure::bad(error).context(format!("cannot use `{shown}` as the file of the key"))
    };
    match File::open(path) {
        Ok(file) => read(file, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let keys = generate()?;
            let bytes = [&keys.secret[..], &keys.seed].concat();
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .map_err(failed)?;
            writeln!(file, "{HEAD}{}", STANDARD.encode(bytes))
                .and_then(|()| file.sync_all())
                .map_err(failed)?;
            Ok(keys)
        }
        Err(error) => Err(failed(error)),
    }
}

fn read(mut file: File, path: &Path) -> Result<ServerKeys, Failure> {
    let shown = path.display();
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Failure::input(
            format!("`{shown}` holds a secret, and others than its owner may read it"),
            format!("run `chmod 600 {shown}`"),
        ));
    }
    let mut text = String::new();
    let read = (&mut file).take(1024).read_to_string(&mut text);
    let bytes = read.ok().and_then(|_| {
        let word = text.trim().strip_prefix(HEAD)?;
        STANDARD.decode(word).ok()
    });
    let keys = bytes.and_then(|bytes| {
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
    fn a_key_stays_the_same_and_is_nobody_elses() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("server.key");
        let Ok(made) = read_or_make(&path) else {
            panic!("it can be made");
        };
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let Ok(read) = read_or_make(&path) else {
            panic!("it can be read");
        };
        assert_eq!((made.secret, made.seed), (read.secret, read.seed));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("its owner may");
        assert!(read_or_make(&path).is_err(), "others can read it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its owner may");
        fs::write(&path, "x").expect("its owner may");
        assert!(read_or_make(&path).is_err(), "it is none");
    }
}
