//! Values of the protocol as text, exactly as the original's shell prints them, and as JSON.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, NO_PAD, PAD, STANDARD,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use zebu_client::{Acl, Perms, Stat};

use crate::failure::Failure;

/// A time as Java's `Date` prints it, in the local time zone.
pub(crate) fn date(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(moment) => {
            moment.to_zoned(TimeZone::system()).strftime("%a %b %d %H:%M:%S %Z %Y").to_string()
        }
        Err(_) => ms.to_string(),
    }
}

/// A time for programs.
fn timestamp(ms: i64) -> Value {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.into(), |moment| moment.to_string().into())
}

fn hex(number: i64) -> String {
    format!("0x{number:x}")
}

/// A stat's eleven lines, without the last line end. Source: `StatPrinter`.
pub(crate) fn stat(stat: &Stat) -> String {
    [
        format!("cZxid = {}", hex(stat.czxid.0)),
        format!("ctime = {}", date(stat.ctime)),
        format!("mZxid = {}", hex(stat.mzxid.0)),
        format!("mtime = {}", date(stat.mtime)),
        format!("pZxid = {}", hex(stat.pzxid.0)),
        format!("cversion = {}", stat.cversion),
        format!("dataVersion = {}", stat.version),
        format!("aclVersion = {}", stat.aversion),
        format!("ephemeralOwner = {}", hex(stat.ephemeral_owner)),
        format!("dataLength = {}", stat.data_length),
        format!("numChildren = {}", stat.num_children),
    ]
    .join("\n")
}

/// A stat as JSON, with the same names. Ids are in hex, times in ISO 8601.
pub(crate) fn stat_json(stat: &Stat) -> Value {
    json!({
        "cZxid": hex(stat.czxid.0),
        "ctime": timestamp(stat.ctime),
        "mZxid": hex(stat.mzxid.0),
        "mtime": timestamp(stat.mtime),
        "pZxid": hex(stat.pzxid.0),
        "cversion": stat.cversion,
        "dataVersion": stat.version,
        "aclVersion": stat.aversion,
        "ephemeralOwner": hex(stat.ephemeral_owner),
        "dataLength": stat.data_length,
        "numChildren": stat.num_children,
    })
}

/// Puts data into a JSON object: as `data` if they are text or null, as `dataBase64` otherwise.
pub(crate) fn put_data(object: &mut Map<String, Value>, data: Option<&[u8]>) {
    let (key, value) = match data.map(std::str::from_utf8) {
        None => ("data", Value::Null),
        Some(Ok(text)) => ("data", text.into()),
        Some(Err(_)) => ("dataBase64", STANDARD.encode(data.unwrap_or_default()).into()),
    };
    object.insert(key.to_owned(), value);
}

/// Reads data written by [`put_data`].
pub(crate) fn take_data(object: &Map<String, Value>) -> Result<Option<Vec<u8>>, String> {
    match (object.get("data"), object.get("dataBase64")) {
        (Some(Value::String(text)), None) => Ok(Some(text.clone().into_bytes())),
        (None | Some(Value::Null), None) => Ok(None),
        (None, Some(Value::String(text))) => {
            STANDARD.decode(text).map(Some).map_err(|error| format!("dataBase64: {error}"))
        }
        _ => Err("data must be a string or null, or dataBase64 a string".to_owned()),
    }
}

/// Permissions as letters. Source: `ZKUtil.getPermString`.
pub(crate) fn perms(perms: Perms) -> String {
    format!("{perms:?}")
}

/// An ACL's lines, without the last line end. Source: `GetAclCommand`.
pub(crate) fn acl(entries: &[Acl]) -> String {
    let line = |acl: &Acl| format!("'{},'{}\n: {}", acl.id.scheme, acl.id.id, perms(acl.perms));
    entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// One entry of an ACL, as users write it: `scheme:id:perms`.
pub(crate) fn acl_entry(acl: &Acl) -> String {
    format!("{}:{}:{}", acl.id.scheme, acl.id.id, perms(acl.perms))
}

/// Parses `scheme:id:perms[,...]`. Invalid entries are reported to `wrong` and left out, as in the
/// original. Source: `AclParser`.
pub(crate) fn parse_acl(text: &str, wrong: &mut impl FnMut(String)) -> Vec<Acl> {
    let mut entries = Vec::new();
    // A comma at the end adds no entry, as in Java's `split`.
    let list = text.trim_end_matches(',');
    let count = if list.is_empty() && !text.is_empty() { 0 } else { usize::MAX };
    for entry in list.split(',').take(count) {
        let parts = entry.split_once(':').and_then(|(scheme, rest)| {
            rest.rsplit_once(':').map(|(id, letters)| (scheme, id, letters))
        });
        let Some((scheme, id, letters)) = parts else {
            wrong(format!("{entry} does not have the form scheme:id:perm"));
            continue;
        };
        let mut perms = Perms::default();
        for letter in letters.chars() {
            perms = perms.or(match letter {
                'r' => Perms::READ,
                'w' => Perms::WRITE,
                'c' => Perms::CREATE,
                'd' => Perms::DELETE,
                'a' => Perms::ADMIN,
                other => {
                    wrong(format!("Unknown perm type: {other}"));
                    continue;
                }
            });
        }
        entries.push(Acl { perms, id: zebu_client::Id::new(scheme, id) });
    }
    entries
}

/// A table of bytes in hex and as characters, 16 a row. Empty for no bytes. Source:
/// `ByteBufUtil.prettyHexDump`.
pub(crate) fn hex_dump(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return String::new();
    }
    let line = "-".repeat(49);
    let mut text = format!("         +{line}+\n         |");
    (0..16).for_each(|column| write!(text, "  {column:x}").expect("writing to a string"));
    write!(text, " |\n+--------+{line}+----------------+").expect("writing to a string");
    for (row, bytes) in bytes.chunks(16).enumerate() {
        let cells: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
        let shown = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let letters: String = bytes.iter().map(shown).collect();
        write!(text, "\n|{:08x}|{cells:<48} |{letters:<16}|", row * 16)
            .expect("writing to a string");
    }
    write!(text, "\n+--------+{line}+----------------+").expect("writing to a string");
    text
}

/// Bytes for the screen of a person. Control characters and invalid text are escaped.
pub(crate) fn for_screen(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let shown = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Parses base64 as users write it: padding is optional, and unused bits are ignored. Source:
/// `java.util.Base64.getDecoder`.
pub(crate) fn from_base64(text: &str) -> Result<Vec<u8>, Failure> {
    const fn engine(padding: GeneralPurposeConfig) -> GeneralPurpose {
        GeneralPurpose::new(&alphabet::STANDARD, padding.with_decode_allow_trailing_bits(true))
    }
    let engine = if text.contains('=') { engine(PAD) } else { engine(NO_PAD) };
    engine.decode(text).map_err(|error| Failure::new(format!("not base64: {error}")))
}

/// Data in base64.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A number of bytes with a unit.
pub(crate) fn bytes(count: u64) -> String {
    let mut size = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hex_dump_is_framed() {
        // As the original prints it for /a with the data «b».
        assert_eq!(
            hex_dump(b"b"),
            "         +-------------------------------------------------+\n\
             \x20        |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n\
             +--------+-------------------------------------------------+----------------+\n\
             |00000000| 62                                              |b               |\n\
             +--------+-------------------------------------------------+----------------+"
        );
        assert_eq!(hex_dump(b""), "");
        let two = hex_dump(&[0x1f; 17]);
        assert!(two.contains("|................|\n|00000010| 1f   "), "{two}");
    }

    #[test]
    fn acls_are_read_and_shown() {
        let mut wrong = Vec::new();
        let acl_list =
            parse_acl("digest:a:b:c=:rw,world:anyone:cdrwaz,bad,x:y", &mut |text| wrong.push(text));
        assert_eq!(acl(&acl_list), "'digest,'a:b:c=\n: rw\n'world,'anyone\n: cdrwa");
        assert_eq!(acl_entry(&acl_list[0]), "digest:a:b:c=:rw");
        assert_eq!(
            wrong,
            [
                "Unknown perm type: z",
                "bad does not have the form scheme:id:perm",
                "x:y does not have the form scheme:id:perm"
            ]
        );
    }

    #[test]
    fn an_acl_ends_with_its_last_entry() {
        let read = |text| {
            let mut wrong = 0;
            let entries = parse_acl(text, &mut |_| wrong += 1).len();
            (entries, wrong)
        };
        assert_eq!(read("world:anyone:r,"), (1, 0));
        assert_eq!(read("world:anyone:r,,ip:::1:r,,"), (2, 1));
        assert_eq!(read(","), (0, 0));
        assert_eq!(read(""), (0, 1));
    }

    #[test]
    fn base64_needs_no_padding() {
        for text in ["YQ==", "YQ", "YR"] {
            assert_eq!(from_base64(text).unwrap(), b"a", "{text}");
        }
        for text in ["YQ=", "Y", "!!!", "YQ==YQ"] {
            from_base64(text).unwrap_err();
        }
        assert_eq!(from_base64("").unwrap(), b"");
    }

    #[test]
    fn data_survive_json() {
        for data in [None, Some(&b"text"[..]), Some(b""), Some(b"\xff\x00")] {
            let mut object = Map::new();
            put_data(&mut object, data);
            assert_eq!(take_data(&object).unwrap().as_deref(), data);
        }
        let Value::Object(wrong) = json!({"data": 5}) else { panic!("an object") };
        take_data(&wrong).unwrap_err();
    }

    #[test]
    fn sizes_are_rounded() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(5 << 40), "5.0 TiB");
    }

    #[test]
    fn a_screen_is_not_commanded() {
        assert_eq!(for_screen(b"a\x1b[2Jb\n"), "a\u{fffd}[2Jb\n");
    }
}
