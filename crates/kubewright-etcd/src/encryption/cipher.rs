//! The ciphers of the providers.

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{AesGcm, Nonce};
use crypto_secretbox::XSalsa20Poly1305;
use ring::rand::{SecureRandom, SystemRandom};

use super::EncryptionError;

type Gcm<A> = AesGcm<A, aes_gcm::aead::consts::U12>;

/// The size of a block of AES, and of the vector with which CBC starts.
const BLOCK: usize = 16;
/// The size of the nonce of GCM.
const GCM_NONCE: usize = 12;
/// The size of the nonce of a secret box.
const BOX_NONCE: usize = 24;

/// A cipher with its key.
pub(super) enum Cipher {
    Cbc(AesKey),
    Gcm(Box<GcmKey>),
    SecretBox(Box<XSalsa20Poly1305>),
}

/// A key of AES.
pub(super) enum AesKey {
    Aes128([u8; 16]),
    Aes192([u8; 24]),
    Aes256([u8; 32]),
}

/// A prepared key of AES in GCM.
pub(super) enum GcmKey {
    Aes128(Gcm<Aes128>),
    Aes192(Gcm<Aes192>),
    Aes256(Gcm<Aes256>),
}

impl Cipher {
    /// The cipher of a provider with this key.
    ///
    /// # Errors
    /// A text about the length of the key.
    pub(super) fn new(provider: &str, key: &[u8]) -> Result<Self, &'static str> {
        if provider == "secretbox" {
            let cipher = XSalsa20Poly1305::new_from_slice(key).map_err(|_| "the key must have 32 bytes")?;
            return Ok(Cipher::SecretBox(Box::new(cipher)));
        }
        let key = AesKey::new(key).ok_or("the key must have 16, 24 or 32 bytes")?;
        Ok(if provider == "aesgcm" { Cipher::Gcm(Box::new(GcmKey::new(&key))) } else { Cipher::Cbc(key) })
    }

    /// Appends nonce and ciphertext. Only GCM authenticates the `context`.
    pub(super) fn encrypt(&self, context: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), EncryptionError> {
        let nonce_size = match self {
            Cipher::Cbc(_) => BLOCK,
            Cipher::Gcm(_) => GCM_NONCE,
            Cipher::SecretBox(_) => BOX_NONCE,
        };
        let start = out.len();
        out.resize(start + nonce_size, 0);
        SystemRandom::new().fill(&mut out[start..]).map_err(|_| EncryptionError::NoRandomNumbers)?;
        self.encrypt_with(start, context, plain, out);
        Ok(())
    }

    /// Appends the ciphertext. `out` has the nonce from `start`.
    fn encrypt_with(&self, start: usize, context: &[u8], plain: &[u8], out: &mut Vec<u8>) {
        let nonce = &out[start..];
        let sealed = match self {
            Cipher::Cbc(AesKey::Aes128(key)) => cbc_encrypt::<Aes128>(key, nonce, plain),
            Cipher::Cbc(AesKey::Aes192(key)) => cbc_encrypt::<Aes192>(key, nonce, plain),
            Cipher::Cbc(AesKey::Aes256(key)) => cbc_encrypt::<Aes256>(key, nonce, plain),
            Cipher::Gcm(key) => key.encrypt(nonce, Payload { msg: plain, aad: context }),
            Cipher::SecretBox(cipher) => cipher.encrypt(nonce.into(), plain).ok(),
        };
        // Values are much shorter than the 64 GiB that the ciphers can encrypt.
        out.extend_from_slice(&sealed.unwrap_or_default());
    }

    /// The plaintext of nonce and ciphertext.
    pub(super) fn decrypt(&self, context: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
        match self {
            Cipher::Cbc(key) => {
                let (nonce, sealed) = stored.split_at_checked(BLOCK)?;
                match key {
                    AesKey::Aes128(key) => cbc_decrypt::<Aes128>(key, nonce, sealed),
                    AesKey::Aes192(key) => cbc_decrypt::<Aes192>(key, nonce, sealed),
                    AesKey::Aes256(key) => cbc_decrypt::<Aes256>(key, nonce, sealed),
                }
            }
            Cipher::Gcm(key) => {
                let (nonce, sealed) = stored.split_at_checked(GCM_NONCE)?;
                key.decrypt(nonce, Payload { msg: sealed, aad: context })
            }
            Cipher::SecretBox(cipher) => {
                let (nonce, sealed) = stored.split_at_checked(BOX_NONCE)?;
                cipher.decrypt(nonce.into(), sealed).ok()
            }
        }
    }
}

impl AesKey {
    fn new(key: &[u8]) -> Option<Self> {
        match key.len() {
            16 => key.try_into().ok().map(AesKey::Aes128),
            24 => key.try_into().ok().map(AesKey::Aes192),
            _ => key.try_into().ok().map(AesKey::Aes256),
        }
    }
}

impl GcmKey {
    fn new(key: &AesKey) -> Self {
        match key {
            AesKey::Aes128(key) => GcmKey::Aes128(Gcm::new(key.into())),
            AesKey::Aes192(key) => GcmKey::Aes192(Gcm::new(key.into())),
            AesKey::Aes256(key) => GcmKey::Aes256(Gcm::new(key.into())),
        }
    }

    fn encrypt(&self, nonce: &[u8], payload: Payload<'_, '_>) -> Option<Vec<u8>> {
        let nonce = Nonce::from_slice(nonce);
        match self {
            GcmKey::Aes128(key) => key.encrypt(nonce, payload).ok(),
            GcmKey::Aes192(key) => key.encrypt(nonce, payload).ok(),
            GcmKey::Aes256(key) => key.encrypt(nonce, payload).ok(),
        }
    }

    fn decrypt(&self, nonce: &[u8], payload: Payload<'_, '_>) -> Option<Vec<u8>> {
        let nonce = Nonce::from_slice(nonce);
        match self {
            GcmKey::Aes128(key) => key.decrypt(nonce, payload).ok(),
            GcmKey::Aes192(key) => key.decrypt(nonce, payload).ok(),
            GcmKey::Aes256(key) => key.decrypt(nonce, payload).ok(),
        }
    }
}

fn cbc_encrypt<A>(key: &[u8], nonce: &[u8], plain: &[u8]) -> Option<Vec<u8>>
where
    cbc::Encryptor<A>: KeyIvInit,
    A: aes::cipher::BlockCipher + aes::cipher::BlockEncryptMut,
{
    let encryptor = cbc::Encryptor::<A>::new_from_slices(key, nonce).ok()?;
    Some(encryptor.encrypt_padded_vec_mut::<Pkcs7>(plain))
}

fn cbc_decrypt<A>(key: &[u8], nonce: &[u8], sealed: &[u8]) -> Option<Vec<u8>>
where
    cbc::Decryptor<A>: KeyIvInit,
    A: aes::cipher::BlockCipher + aes::cipher::BlockDecryptMut,
{
    let decryptor = cbc::Decryptor::<A>::new_from_slices(key, nonce).ok()?;
    decryptor.decrypt_padded_vec_mut::<Pkcs7>(sealed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("hex");
        digits.chunks(2).map(byte).collect()
    }

    fn check(provider: &str, key: &str, context: &str, nonce: &str, plain: &str, sealed: &str) {
        let cipher = Cipher::new(provider, &bytes(key)).expect("the key is valid");
        let mut stored = bytes(nonce);
        cipher.encrypt_with(0, &bytes(context), &bytes(plain), &mut stored);
        assert_eq!(stored, [bytes(nonce), bytes(sealed)].concat(), "{provider}");
        assert_eq!(cipher.decrypt(&bytes(context), &stored), Some(bytes(plain)), "{provider}");
    }

    #[test]
    fn cbc_is_that_of_nist_with_padding() {
        // NIST SP 800-38A F.2: the first block of the example. A whole block of padding follows, so
        // that only the first block is compared.
        for (key, sealed) in [
            ("2b7e151628aed2a6abf7158809cf4f3c", "7649abac8119b246cee98e9b12e9197d"),
            ("8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b", "4f021db243bc633d7178183a9fa071e8"),
            ("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", "f58c4c04d6e5f1ba779eabfb5f7bfbd6"),
        ] {
            let cipher = Cipher::new("aescbc", &bytes(key)).expect("the key is valid");
            let nonce = bytes("000102030405060708090a0b0c0d0e0f");
            let plain = bytes("6bc1bee22e409f96e93d7e117393172a");
            let mut stored = nonce.clone();
            cipher.encrypt_with(0, b"ignored", &plain, &mut stored);
            assert_eq!(stored[BLOCK..2 * BLOCK], bytes(sealed)[..]);
            assert_eq!((stored.len(), cipher.decrypt(b"", &stored)), (3 * BLOCK, Some(plain)));
        }
    }

    #[test]
    fn gcm_is_that_of_its_authors() {
        // Test cases 4, 10 and 16 of the specification.
        let plain = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525\
                     b16aedf5aa0de657ba637b39";
        let (context, nonce) = ("feedfacedeadbeeffeedfacedeadbeefabaddad2", "cafebabefacedbaddecaf888");
        let key = "feffe9928665731c6d6a8f9467308308";
        check(
            "aesgcm",
            key,
            context,
            nonce,
            plain,
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0\
             aac973d58e0915bc94fbc3221a5db94fae95ae7121a47",
        );
        check(
            "aesgcm",
            &format!("{key}feffe9928665731c"),
            context,
            nonce,
            plain,
            "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c7d773d00c144c525ac619d18c84a3f4718e2448b2fe\
             324d9ccda27102519498e80f1478f37ba55bd6d27618c",
        );
        check(
            "aesgcm",
            &format!("{key}{key}"),
            context,
            nonce,
            plain,
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393b\
             a7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
        );
    }

    #[test]
    fn secret_boxes_are_those_of_nacl() {
        // The vector of the tests of NaCl.
        check(
            "secretbox",
            "1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389",
            "",
            "69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37",
            "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233\
             561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca\
             1c60902e52f0a089bc76897040e082f937763848645e0705",
            "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98d\
             ce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3\
             732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5",
        );
    }

    #[test]
    fn a_key_has_the_length_of_its_cipher() {
        assert!(Cipher::new("aescbc", &[0; 20]).is_err() && Cipher::new("secretbox", &[0; 16]).is_err());
    }
}
