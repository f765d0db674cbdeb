//! Small texts: paths, quotas, and the ids in access control lists.

use std::net::IpAddr;

use zebu_proto::path::{self, PathError};
use zebu_proto::{Acl, AclRef, ConnectString, ErrorCode, Id, Perms};
use zebu_replica::auth::{
    AuthProvider, Claim, Digest, DigestAlgorithm, Ip, Schemes, ip_text, masked,
};
use zebu_tree::QuotaText;

/// The limit to which `auth` entries may expand here; a server derives it from its other limits.
const EXPANDED_BYTES_MAX: usize = 1 << 20;

/// A path is accepted exactly when a second implementation of the rules accepts it.
pub(crate) fn path(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let result = path::validate(&text);
    assert_eq!(result.is_ok(), is_path(&text), "{text:?}: {result:?}");
    let characters = text.chars().count();
    match result {
        Err(PathError::EmptyName(at) | PathError::Dots(at) | PathError::Character(at)) => {
            assert!(0 < at && at < characters, "{text:?}: {at}");
        }
        Err(PathError::Empty) => assert!(text.is_empty()),
        Err(PathError::Relative) => assert!(!text.starts_with('/')),
        Err(PathError::TrailingSlash) => assert!(characters > 1 && text.ends_with('/')),
        Ok(()) => {
            let (parent, name) = path::split(&text).expect("a path has a slash");
            assert_eq!(format!("{parent}/{name}"), text);
            assert!(parent.is_empty() || path::validate(parent).is_ok());
            assert!(!name.contains('/'));
        }
    }
}

/// The rules again, as the original applies them: one UTF-16 unit after the other.
fn is_path(text: &str) -> bool {
    let units: Vec<u16> = text.encode_utf16().collect();
    let slash = u16::from(b'/');
    let dot = u16::from(b'.');
    if units.first() != Some(&slash) {
        return false;
    }
    if units.len() == 1 {
        return true;
    }
    if units.last() == Some(&slash) {
        return false;
    }
    let ends = |at: usize| units.get(at).is_none_or(|unit| *unit == slash);
    (1..units.len()).all(|at| {
        let (before, unit) = (units[at - 1], units[at]);
        let bad = match unit {
            0 => true,
            _ if unit == slash => before == slash,
            _ if unit == dot && before == slash => {
                ends(at + 1) || (units[at + 1] == dot && ends(at + 2))
            }
            _ => matches!(unit, 0x01..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff),
        };
        !bad
    })
}

/// A quota is the same after writing and reading.
pub(crate) fn quota_text(bytes: &[u8]) {
    let Ok(quota) = QuotaText::parse(Some(bytes)) else { return };
    let text = quota.to_string();
    let again = QuotaText::parse(Some(text.as_bytes())).expect("what was written can be read");
    assert_eq!(again.to_string(), text);
    assert_eq!(again.count(), quota.count());
    assert_eq!(again.bytes(), quota.bytes());
    assert_eq!(again.count_hard(), quota.count_hard());
    assert_eq!(again.bytes_hard(), quota.bytes_hard());
}

/// A connect string means the same after it is written and read.
pub(crate) fn connect_string(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(meant) = text.parse::<ConnectString>() else { return };
    assert!(!meant.servers.is_empty());
    let servers: Vec<String> = meant.servers.iter().map(ToString::to_string).collect();
    let chroot = meant.chroot.as_deref().unwrap_or_default();
    if !chroot.is_empty() {
        assert!(path::validate(chroot).is_ok() && chroot != "/");
    }
    // A name in brackets may contain characters that have a meaning outside of them.
    if meant.servers.iter().any(|server| server.host.contains(|c| !is_of_hosts(c))) {
        return;
    }
    let again = format!("{}{chroot}", servers.join(","));
    assert_eq!(again.parse().as_ref(), Ok(&meant), "{again:?}");
}

fn is_of_hosts(char: char) -> bool {
    char.is_alphanumeric() || ".-_:%".contains(char)
}

/// Lines: an address, a credential, then ACL entries as `perms scheme id`; a lone `-` is null.
pub(crate) fn acl(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    let expression = lines.next().unwrap_or_default();
    ip(expression);

    let digest = Digest::new(DigestAlgorithm::default(), None);
    let schemes = Schemes::new(vec![Box::new(digest)], false);
    let peer = IpAddr::from([192, 168, 7, 9]);
    let mut ids = schemes.initial(peer);
    let credential = lines.next().unwrap_or_default();
    let claim = Claim::new(peer, Some(credential.as_bytes()));
    if let Ok(Some(added)) = schemes.authenticate(&ids, "digest", &claim) {
        assert!(added.len() <= ids.len() + 1);
        let again = schemes.authenticate(&added, "digest", &claim);
        assert_eq!(again, Ok(Some(added.clone())), "nobody is added twice");
        ids = added;
    }
    for shown in schemes.who_am_i(&ids) {
        assert!(shown.auth_scheme != "digest" || !shown.user.contains(':'), "{shown:?}");
    }

    let asked: Vec<AclRef<'_>> = lines.map(entry).collect();
    let result = schemes.fix_up(Some(asked.clone()), &ids, EXPANDED_BYTES_MAX);
    let fixed = match result {
        Ok(fixed) => fixed,
        Err(code) => {
            assert!(matches!(code, ErrorCode::INVALID_ACL | ErrorCode::MARSHALLING_ERROR));
            return;
        }
    };
    assert!(!fixed.is_empty());
    assert!(fixed.iter().all(|entry| entry.scheme.as_deref() != Some("auth")));
    // A stored list is a valid argument of a request.
    let again = schemes
        .fix_up(Some(fixed.clone()), &ids, EXPANDED_BYTES_MAX)
        .expect("a fixed list is valid");
    assert!(again.iter().all(|entry| fixed.contains(entry)));
    assert!(fixed.iter().all(|entry| again.contains(entry)));

    let stored: Vec<Acl> = fixed.iter().map(AclRef::to_owned).collect();
    for wanted in [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN] {
        let expected = stored.iter().any(|entry| {
            entry.perms.intersects(wanted)
                && (entry.id == Id::new("world", "anyone") || is_meant(&entry.id, &ids))
        });
        assert_eq!(schemes.permits(&stored, wanted, &ids), expected, "{wanted:?} of {stored:?}");
    }
    for entry in &stored {
        let shown = masked(entry);
        let id = shown.id.as_deref().unwrap_or_default();
        if entry.id.scheme == "digest" {
            assert!(!entry.id.id.contains(':') || id.ends_with(":x"), "{id:?} shows a digest");
        } else {
            assert_eq!(id, entry.id.id);
        }
    }
}

fn is_meant(entry: &Id, ids: &[Id]) -> bool {
    ids.iter().any(|id| {
        id.scheme == entry.scheme
            && if id.scheme == "ip" { Ip.matches(&id.id, &entry.id) } else { id.id == entry.id }
    })
}

fn entry(line: &str) -> AclRef<'_> {
    let mut words = line.splitn(3, ' ');
    let perms = words.next().and_then(|perms| perms.parse().ok()).unwrap_or(31);
    let mut word = || words.next().filter(|word| *word != "-").map(Into::into);
    AclRef { perms: Perms(perms), scheme: word(), id: word() }
}

/// A network matches its own address, its first and its last address, and no address outside.
fn ip(expression: &str) {
    let (address, bits) = expression.split_once('/').unwrap_or((expression, ""));
    let valid = Ip.is_valid(expression);
    if !valid {
        assert!(!Ip.matches("127.0.0.1", expression) && !Ip.matches("0:0:0:0:0:0:0:1", expression));
        return;
    }
    assert!(Ip.is_valid(address), "{address:?} without its bits");
    // The original's form of an address, if both implementations read it in the same way.
    let Ok(parsed) = address.parse::<IpAddr>() else { return };
    let number = |address: IpAddr| match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let (value, width) = number(parsed);
    let length: u32 = if bits.is_empty() { width } else { bits.parse().expect("it is valid") };
    assert!(length <= width);
    let host = if length == 0 { u128::MAX >> (128 - width) } else { (1 << (width - length)) - 1 };
    let at = |value: u128| match width {
        32 => IpAddr::from((value as u32).to_be_bytes()),
        _ => IpAddr::from(value.to_be_bytes()),
    };
    for inside in [value, value & !host, value | host] {
        let inside = at(inside);
        // Mapped addresses are written in the form of the other family, and belong to that family
        // then.
        if inside.to_canonical() == inside {
            assert!(Ip.matches(&ip_text(inside), expression), "{inside} in {expression}");
        }
    }
    if length > 0 {
        let outside = at(value ^ 1 << (width - length));
        if outside.to_canonical() == outside {
            assert!(!Ip.matches(&ip_text(outside), expression), "{outside} in {expression}");
        }
    }
}
