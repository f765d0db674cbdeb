//! PEM: blocks of base64 between marker lines, in any order, with any text around them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::{Contents, Fault};
use crate::der::{OCTET_STRING, Reader, SEQUENCE};
use crate::pbe::{self, Password, PbeError};

/// One block.
pub struct Block {
    /// The label after `BEGIN`.
    pub label: String,
    /// The decoded content.
    pub der: Zeroizing<Vec<u8>>,
    /// Whether it is encrypted in the format before PKCS8, with a `Proc-Type` line.
    pub is_proc_type: bool,
}

/// Whether the text contains the first line of a block.
pub fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(11).any(|window| window == b"-----BEGIN ")
}

/// All blocks of a text.
///
/// # Errors
/// A block has no end or is not base64. The fault has the line.
pub fn blocks(bytes: &[u8]) -> Result<Vec<Block>, Fault> {
    const REMEDY: &str = "copy the whole block again, with its BEGIN and END lines";
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String, Zeroizing<Vec<u8>>, bool)> = None;
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        let number = index + 1;
        if let Some(label) = marked(line, b"-----BEGIN ") {
            if let Some((start, label, ..)) = open {
                return Err(Fault::new(
                    format!("line {start}: the {label} has no END line"),
                    REMEDY,
                ));
            }
            open = Some((number, label, Zeroizing::new(Vec::with_capacity(4096)), false));
        } else if let Some(end) = marked(line, b"-----END ") {
            let Some((start, label, text, is_proc_type)) = open.take() else { continue };
            if end != label {
                let what = format!("line {number}: {label} of line {start} ends as {end}");
                return Err(Fault::new(what, REMEDY));
            }
            let der = Zeroizing::new(if is_proc_type {
                Vec::new()
            } else {
                STANDARD.decode(&*text).map_err(|_| {
                    Fault::new(format!("line {start}: the {label} is not base64"), REMEDY)
                })?
            });
            blocks.push(Block { label, der, is_proc_type });
        } else if let Some((_, _, text, is_proc_type)) = &mut open {
            if line.contains(&b':') {
                *is_proc_type |= line.starts_with(b"Proc-Type:") && line.ends_with(b"ENCRYPTED");
            } else {
                text.extend_from_slice(line);
            }
        }
    }
    match open {
        Some((start, label, ..)) => {
            Err(Fault::new(format!("line {start}: the {label} has no END line"), REMEDY))
        }
        None => Ok(blocks),
    }
}

fn marked(line: &[u8], mark: &[u8]) -> Option<String> {
    let label = line.strip_prefix(mark)?.strip_suffix(b"-----")?;
    Some(String::from_utf8_lossy(label).into_owned())
}

/// Reads certificates, keys and revocation lists.
pub(super) fn contents(bytes: &[u8], password: Option<&Password>) -> Result<Contents, Fault> {
    let mut contents = Contents::default();
    for mut block in blocks(bytes)? {
        match block.label.as_str() {
            "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE" => {
                contents.certificates.push(certificate_of(&block)?);
            }
            "X509 CRL" => contents.revocations.push(std::mem::take(&mut *block.der)),
            "ENCRYPTED PRIVATE KEY" => {
                let password = password.ok_or_else(|| Fault::password(false))?;
                let key = decrypted(&block.der, password)?;
                contents.identities.push((key, Vec::new()));
            }
            label if label.ends_with("PRIVATE KEY") && block.is_proc_type => {
                return Err(Fault::new(
                    "its private key is encrypted in OpenSSL's old manner (Proc-Type), which no Java reads either",
                    "convert it: openssl pkcs8 -topk8 -in KEY",
                ));
            }
            "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" => {
                contents.identities.push((block.der, Vec::new()));
            }
            "DSA PRIVATE KEY" => {
                return Err(Fault::new(
                    "its private key is of DSA, which TLS has given up",
                    "use RSA or EC",
                ));
            }
            _ => {}
        }
    }
    if contents.identities.len() > 1 {
        return Err(Fault::new(
            "there is more than one private key in it",
            "leave the one to be used",
        ));
    }
    Ok(contents)
}

/// OpenSSL's trusted certificates contain additional data after the certificate.
fn certificate_of(block: &Block) -> Result<Vec<u8>, Fault> {
    if block.label != "TRUSTED CERTIFICATE" {
        return Ok(block.der.to_vec());
    }
    let element = Reader::new(&block.der).any().map_err(|error| Fault::damaged("PEM", error))?;
    Ok(element.whole.to_vec())
}

/// The key in an `EncryptedPrivateKeyInfo`, which PKCS12 also uses.
pub(super) fn decrypted(der: &[u8], password: &Password) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let read = || -> Result<_, PbeError> {
        let mut info = Reader::new(der).inside(SEQUENCE)?;
        let algorithm = info.expect(SEQUENCE)?;
        let key = pbe::decrypt(algorithm, password, info.expect(OCTET_STRING)?)?;
        // Padding can be valid by chance, so the content must also be a key.
        let is_key = Reader::new(&key).inside(SEQUENCE).and_then(|mut key| key.number()).is_ok();
        if is_key { Ok(key) } else { Err(PbeError::Password) }
    };
    read().map_err(|error| match error {
        PbeError::Password => Fault::password(true),
        PbeError::Scheme(_) | PbeError::Rounds(_) => {
            Fault::new(error.to_string(), "convert it: openssl pkcs8 -topk8 -v2 aes-256-cbc")
        }
        PbeError::Der(error) => Fault::damaged("encrypted key", error),
    })
}
