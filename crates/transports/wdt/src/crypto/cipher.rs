//! AES-128 as a stream whose tag can be computed before its end, over AWS-LC.

use std::ffi::c_int;
use std::ptr;

use aws_lc_sys as lc;

use super::{Cipher, CryptoError, IV_BYTES, KEY_BYTES, Key, TAG_BYTES};

/// The largest part that is given to the library at once; its lengths are an `int`.
const MAX_PART_BYTES: usize = 1 << 30;
/// Bytes of the IV that GCM uses as its nonce.
const GCM_NONCE_BYTES: usize = 12;

/// Returns sixteen bytes from the system's random number generator.
pub(super) fn random() -> Result<[u8; KEY_BYTES], CryptoError> {
    let mut bytes = [0; KEY_BYTES];
    // SAFETY: the pointer and the length are those of `bytes`.
    ok(unsafe { lc::RAND_bytes(bytes.as_mut_ptr(), bytes.len()) })?;
    Ok(bytes)
}

/// Converts a return value of the library, which is 1 for success.
fn ok(returned: c_int) -> Result<(), CryptoError> {
    match returned {
        1 => Ok(()),
        _ => Err(CryptoError::Library),
    }
}

/// State of a cipher within a stream.
pub(super) struct Stream {
    context: Context,
    pub(super) cipher: Cipher,
    key: Key,
    encrypts: bool,
}

impl Stream {
    pub(super) fn new(
        cipher: Cipher,
        key: Key,
        iv: &[u8; IV_BYTES],
        encrypts: bool,
    ) -> Result<Self, CryptoError> {
        let mut stream = Self {
            context: Context::new()?,
            cipher,
            key,
            encrypts,
        };
        stream.restart(iv)?;
        Ok(stream)
    }

    /// Restarts the stream under another IV.
    pub(super) fn restart(&mut self, iv: &[u8; IV_BYTES]) -> Result<(), CryptoError> {
        let (kind, iv_bytes) = match self.cipher {
            // SAFETY: gives a pointer to a constant of the library.
            Cipher::Aes128Ctr => unsafe { (lc::EVP_aes_128_ctr(), IV_BYTES) },
            // SAFETY: as above.
            Cipher::Aes128Gcm => unsafe { (lc::EVP_aes_128_gcm(), GCM_NONCE_BYTES) },
        };
        debug_assert!(iv_bytes <= iv.len());
        // SAFETY: the context is live; a key of AES-128 has 16 bytes, counter mode takes an IV of
        // 16 bytes and GCM one of 12, and both arrays have 16; a null engine is the default.
        ok(unsafe {
            lc::EVP_CipherInit_ex(
                self.context.0,
                kind,
                ptr::null_mut(),
                self.key.bytes().as_ptr(),
                iv.as_ptr(),
                c_int::from(self.encrypts),
            )
        })
    }

    /// Appends the encrypted or decrypted `input` to `out`.
    pub(super) fn append(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CryptoError> {
        for part in input.chunks(MAX_PART_BYTES) {
            out.reserve(part.len());
            // SAFETY: there is room for as many bytes after the end of `out` as `part` has, and
            // the two do not overlap.
            unsafe {
                self.update(out.as_mut_ptr().add(out.len()), part.as_ptr(), part.len())?;
                out.set_len(out.len() + part.len());
            }
        }
        Ok(())
    }

    /// Encrypts or decrypts `bytes` in place.
    pub(super) fn in_place(&mut self, bytes: &mut [u8]) -> Result<(), CryptoError> {
        for part in bytes.chunks_mut(MAX_PART_BYTES) {
            // SAFETY: input and output are the same bytes, which the library allows.
            unsafe { self.update(part.as_mut_ptr(), part.as_ptr(), part.len())? };
        }
        Ok(())
    }

    /// # Safety
    /// `input` may be read and `out` written for `length` bytes, at most [`MAX_PART_BYTES`]; they
    /// are the same or do not overlap.
    unsafe fn update(
        &mut self,
        out: *mut u8,
        input: *const u8,
        length: usize,
    ) -> Result<(), CryptoError> {
        let mut written: c_int = 0;
        // SAFETY: by the caller's promise; both ciphers write exactly as many bytes as they read.
        ok(unsafe {
            lc::EVP_CipherUpdate(self.context.0, out, &mut written, input, length as c_int)
        })?;
        ok(c_int::from(written as usize == length))
    }

    /// Returns the tag of everything since the IV was set; the stream goes on after it.
    pub(super) fn tag(&self) -> Result<[u8; TAG_BYTES], CryptoError> {
        let copy = self.context.copy()?;
        let mut tag = [0; TAG_BYTES];
        copy.finish()?;
        copy.control(lc::EVP_CTRL_AEAD_GET_TAG, &mut tag)?;
        Ok(tag)
    }

    /// Whether this is the tag of everything since the IV was set; compared in constant time.
    pub(super) fn verifies(&self, mut tag: [u8; TAG_BYTES]) -> Result<bool, CryptoError> {
        let copy = self.context.copy()?;
        copy.control(lc::EVP_CTRL_AEAD_SET_TAG, &mut tag)?;
        Ok(copy.finish().is_ok())
    }
}

/// An owned context of the library.
struct Context(*mut lc::EVP_CIPHER_CTX);

// SAFETY: the library's context is a plain piece of memory without ties to a thread, and only
// methods that take `&mut Stream` change it.
unsafe impl Send for Context {}

impl Context {
    fn new() -> Result<Self, CryptoError> {
        // SAFETY: takes nothing and gives a context or null.
        let context = unsafe { lc::EVP_CIPHER_CTX_new() };
        ok(c_int::from(!context.is_null()))?;
        Ok(Self(context))
    }

    fn copy(&self) -> Result<Self, CryptoError> {
        let copy = Self::new()?;
        // SAFETY: both are live contexts.
        ok(unsafe { lc::EVP_CIPHER_CTX_copy(copy.0, self.0) })?;
        Ok(copy)
    }

    fn finish(&self) -> Result<(), CryptoError> {
        // Neither cipher has anything left to write; the room is what a block cipher would need.
        let mut rest = [0_u8; 32];
        let mut written: c_int = 0;
        // SAFETY: the context is live, and there is room for a block.
        ok(unsafe { lc::EVP_CipherFinal_ex(self.0, rest.as_mut_ptr(), &mut written) })
    }

    fn control(&self, command: c_int, tag: &mut [u8; TAG_BYTES]) -> Result<(), CryptoError> {
        // SAFETY: both commands that are given here read or write as many bytes as are named.
        ok(unsafe {
            lc::EVP_CIPHER_CTX_ctrl(self.0, command, TAG_BYTES as c_int, tag.as_mut_ptr().cast())
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is live and has no other owner; its key is wiped.
        unsafe { lc::EVP_CIPHER_CTX_free(self.0) }
    }
}
