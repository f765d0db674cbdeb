//! The identity and permissions of a connection: authentication schemes, ACL fix-up and ACL
//! evaluation.
//!
//! Owns the trait for authentication schemes. Each operation knows for itself which permission it
//! needs.

mod digest;
mod ensemble;
mod ip;
mod key;
mod x509;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use zebu_proto::{Acl, AclRef, ClientInfo, ErrorCode, Id, Perms};

pub use digest::{Digest, DigestAlgorithm, UnknownAlgorithm};
pub use ensemble::{Ensemble, SCHEME as ENSEMBLE_SCHEME};
pub use ip::{Ip, text as ip_text};
pub use key::Key;
pub use x509::{SCHEME as X509_SCHEME, X509};

/// The ids of one connection, in the order they were added. Requests in flight share them cheaply.
pub type Credentials = Arc<[Id]>;

/// Maximum number of ids of a connection: each request is compared with all of them.
pub const IDS_MAX: usize = 1000;

/// Up to this many comparisons of ids with ACL entries are cheaper than building a table of ids.
const COMPARISONS_MAX: usize = 256;

/// Maximum bytes of a connection's ids. They live as long as the connection. Smaller where packets
/// between servers, which carry the ids with each write, have a lower limit; see
/// [`Schemes::limited`].
pub const IDS_BYTES_MAX: usize = 1 << 20;

/// Maximum bytes that the `auth` entries of one request may expand to, so that a log record is not
/// many times as long as its request. Smaller where records have a lower limit.
pub const EXPANDED_BYTES_MAX: usize = 512 << 10;

/// A connection's credentials were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// They are wrong: the client gets AUTHFAILED, and its connection is closed.
    #[error("credentials refused")]
    Credentials,
    /// This server refuses without an answer and closes the connection, so that the client tries
    /// another server.
    #[error("credentials refused without an answer")]
    Elsewhere,
}

/// The result of an auth packet: ids for its connection, or a refusal.
pub type Verdict = Result<Vec<Id>, Refused>;

/// An auth packet, and the context in which a scheme judges it.
#[derive(Clone, Copy)]
pub struct Claim<'c> {
    /// The client's address.
    pub peer: IpAddr,
    /// The data that the client sent; `None` is a null.
    pub data: Option<&'c [u8]>,
    /// Looks up the data of a znode by its path. `None`: there is no such znode, or its data is
    /// null.
    pub znode: &'c dyn Fn(&str) -> Option<Vec<u8>>,
}

impl Claim<'_> {
    /// A claim without access to znodes.
    pub fn new(peer: IpAddr, data: Option<&[u8]>) -> Claim<'_> {
        Claim { peer, data, znode: &|_| None }
    }
}

/// A question to an asynchronous scheme.
#[derive(Clone, PartialEq, Eq)]
pub struct Question {
    /// The client's address.
    pub peer: IpAddr,
    /// The data that the client sent; `None` is a null.
    pub data: Option<Vec<u8>>,
}

/// Hides the data: they contain a password.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Carries the verdict of an asynchronous scheme back. Dropping it without a verdict refuses.
pub struct Answer(Option<Box<dyn FnOnce(Verdict) + Send>>);

impl Answer {
    /// Calls `give` once with the verdict.
    pub fn new(give: impl FnOnce(Verdict) + Send + 'static) -> Self {
        Self(Some(Box::new(give)))
    }

    /// Delivers the verdict.
    pub fn give(mut self, verdict: Verdict) {
        if let Some(give) = self.0.take() {
            give(verdict);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(give) = self.0.take() {
            give(Err(Refused::Elsewhere));
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

/// An authentication scheme: plugged in under its name, beside the built-in ones.
///
/// None of its methods may wait: network workers and the replica call them while other clients
/// wait. A scheme that has to ask somebody says so ([`AuthProvider::takes_time`]) and gives its
/// verdict later.
///
/// All members of an ensemble need the same schemes: the leader compares the ids of the clients of
/// all members with ACLs.
///
/// ```
/// use std::net::IpAddr;
///
/// use zebu_proto::Id;
/// use zebu_replica::auth::{AuthProvider, Claim, Refused, Verdict};
///
/// /// Clients of the machine itself that know a word.
/// struct House(String);
///
/// impl AuthProvider for House {
///     fn scheme(&self) -> &str {
///         "house"
///     }
///
///     fn authenticate(&self, claim: &Claim<'_>) -> Verdict {
///         let knows = claim.data == Some(self.0.as_bytes());
///         match knows && claim.peer.is_loopback() {
///             true => Ok(vec![Id::new("house", "inmate")]),
///             false => Err(Refused::Credentials),
///         }
///     }
///
///     fn is_authenticated(&self) -> bool {
///         true
///     }
///
///     fn is_valid(&self, id: &str) -> bool {
///         id == "inmate"
///     }
///
///     fn matches(&self, id: &str, expression: &str) -> bool {
///         id == expression
///     }
/// }
///
/// let home = IpAddr::from([127, 0, 0, 1]);
/// let house = House("friend".to_owned());
/// assert_eq!(house.authenticate(&Claim::new(home, Some(b"friend"))).unwrap().len(), 1);
/// assert_eq!(house.authenticate(&Claim::new(home, None)), Err(Refused::Credentials));
/// ```
///
/// Source: `AuthenticationProvider`, `ServerAuthenticationProvider`.
pub trait AuthProvider: Send + Sync {
    /// Its name, as in ACLs and auth packets.
    fn scheme(&self) -> &str;

    /// The ids that an auth packet adds to its connection. Not called for [asynchronous
    /// schemes](AuthProvider::takes_time).
    ///
    /// # Errors
    /// [`Refused`]: the connection is closed.
    fn authenticate(&self, claim: &Claim<'_>) -> Verdict;

    /// Whether [`AuthProvider::ask`] judges auth packets, in place of
    /// [`AuthProvider::authenticate`].
    fn takes_time(&self) -> bool {
        false
    }

    /// Judges an auth packet asynchronously: `answer` may be given later and from any thread. This
    /// method must return at once. No requests are taken from this connection until then; other
    /// connections continue. Dropping `answer` refuses.
    fn ask(&self, _question: Question, _answer: Answer) {}

    /// Whether ids of this scheme come with the connection itself, for example from a certificate.
    /// The client then has them from the start. An auth packet adds none, and is refused if the
    /// connection has none.
    fn comes_with_connection(&self) -> bool {
        false
    }

    /// Whether an id of this scheme proves who the client is, so that `auth:` entries expand to it.
    fn is_authenticated(&self) -> bool;

    /// Whether `id` may stand in an ACL.
    fn is_valid(&self, id: &str) -> bool;

    /// Whether a connection's `id` is meant by an ACL entry's `expression`.
    fn matches(&self, id: &str, expression: &str) -> bool;

    /// Whether [`AuthProvider::matches`] is plain equality. Then a client with many ids is not
    /// compared with every entry of a long ACL.
    fn is_exact(&self) -> bool {
        false
    }

    /// The id without its secrets, for `whoAmI` and the audit log.
    fn user_name<'a>(&self, id: &'a str) -> &'a str {
        id
    }
}

/// The schemes of a server, and options that apply to every check.
pub struct Schemes {
    providers: Vec<Box<dyn AuthProvider>>,
    skip_acl: bool,
    refuses_world_writes: bool,
    ids_bytes_max: usize,
}

impl Schemes {
    /// The scheme `ip` and those in `extra`. `skip_acl` disables all permission checks.
    pub fn new(extra: Vec<Box<dyn AuthProvider>>, skip_acl: bool) -> Self {
        let mut providers: Vec<Box<dyn AuthProvider>> = vec![Box::new(Ip)];
        providers.extend(extra);
        Self { providers, skip_acl, refuses_world_writes: false, ids_bytes_max: IDS_BYTES_MAX }
    }

    /// Whether to refuse new ACL entries that give everybody more than read permission, whoever
    /// sets them.
    pub fn refusing_world_writes(self, refuses: bool) -> Self {
        Self { refuses_world_writes: refuses, ..self }
    }

    /// Limits the ids of a connection to `packet_bytes_max`, the limit for ids in a packet between
    /// servers: the leader would disconnect a follower that sends more.
    pub fn limited(self, packet_bytes_max: usize) -> Self {
        Self { ids_bytes_max: IDS_BYTES_MAX.min(packet_bytes_max), ..self }
    }

    /// The provider of a scheme.
    pub fn provider(&self, scheme: &str) -> Option<&dyn AuthProvider> {
        self.providers.iter().find(|provider| provider.scheme() == scheme).map(Box::as_ref)
    }

    /// The ids of a new connection: its address.
    pub fn initial(&self, peer: IpAddr) -> Credentials {
        Arc::new([Id::new("ip", ip::text(peer))])
    }

    /// The ids of a new connection that has already proved `ids`: its address and these.
    pub fn initial_with(&self, peer: IpAddr, ids: Vec<Id>) -> Credentials {
        std::iter::once(Id::new("ip", ip::text(peer))).chain(ids).collect()
    }

    /// Adds the ids that an auth packet proves, without duplicates. `None`: the scheme is
    /// asynchronous. [Ask](AuthProvider::ask) it, and add its verdict with [`Schemes::with`].
    ///
    /// # Errors
    /// [`Refused`]: by the provider, because there is no such scheme, or above [`IDS_MAX`] or the
    /// limit of bytes.
    pub fn authenticate(
        &self,
        credentials: &Credentials,
        scheme: &str,
        claim: &Claim<'_>,
    ) -> Result<Option<Credentials>, Refused> {
        let provider = self.provider(scheme).ok_or(Refused::Credentials)?;
        if provider.takes_time() {
            return Ok(None);
        }
        if provider.comes_with_connection() && credentials.iter().any(|id| id.scheme == scheme) {
            return Ok(Some(credentials.clone()));
        }
        self.with(credentials, provider.authenticate(claim)?).map(Some)
    }

    /// Adds ids that a connection has proved, without duplicates.
    ///
    /// # Errors
    /// [`Refused`] above [`IDS_MAX`] or the limit of bytes.
    pub fn with(&self, credentials: &Credentials, added: Vec<Id>) -> Result<Credentials, Refused> {
        let mut ids = credentials.to_vec();
        for id in added {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let bytes: usize = ids.iter().map(id_bytes).sum();
        if ids.len() > IDS_MAX || bytes > self.ids_bytes_max {
            Err(Refused::Credentials)
        } else {
            Ok(ids.into())
        }
    }

    /// Whether a connection with these ids has at least one of the `wanted` permissions.
    pub fn permits(&self, acl: &[Acl], wanted: Perms, ids: &[Id]) -> bool {
        if self.skip_acl || acl.is_empty() {
            return true;
        }
        let mut asked = acl.iter().filter(|entry| entry.perms.intersects(wanted)).peekable();
        if let Some(first) = asked.peek()
            && is_world(&first.id)
        {
            return true;
        }
        if ids.iter().any(|id| id.scheme == "super") {
            return true;
        }
        if acl.len().saturating_mul(ids.len()) < COMPARISONS_MAX {
            return asked.any(|entry| is_world(&entry.id) || self.is_meant(&entry.id, ids));
        }
        let exact = |scheme: &str| self.provider(scheme).is_some_and(AuthProvider::is_exact);
        let (equal, other): (Vec<&Id>, Vec<&Id>) = ids.iter().partition(|id| exact(&id.scheme));
        let equal: BTreeSet<(&str, &str)> =
            equal.into_iter().map(|id| (id.scheme.as_str(), id.id.as_str())).collect();
        asked.any(|entry| {
            is_world(&entry.id)
                || equal.contains(&(entry.id.scheme.as_str(), entry.id.id.as_str()))
                || self.is_meant(&entry.id, other.iter().copied())
        })
    }

    fn is_meant<'i>(&self, entry: &Id, ids: impl IntoIterator<Item = &'i Id>) -> bool {
        self.provider(&entry.scheme).is_some_and(|provider| {
            ids.into_iter()
                .any(|id| id.scheme == entry.scheme && provider.matches(&id.id, &entry.id))
        })
    }

    /// Turns the ACL of a request into the stored one: removes duplicates, and replaces `auth:` by
    /// the connection's own ids, up to `expanded_bytes_max` bytes.
    /// Source: `PrepRequestProcessor.fixupACL`.
    ///
    /// # Errors
    /// [`ErrorCode::INVALID_ACL`] for an empty list, an entry that no scheme accepts, or above
    /// `expanded_bytes_max`; [`ErrorCode::MARSHALLING_ERROR`] for a null id where the scheme needs
    /// one.
    pub fn fix_up<'a>(
        &self,
        acl: Option<Vec<AclRef<'a>>>,
        ids: &'a [Id],
        expanded_bytes_max: usize,
    ) -> Result<Vec<AclRef<'a>>, ErrorCode> {
        let acl = acl.filter(|acl| !acl.is_empty()).ok_or(ErrorCode::INVALID_ACL)?;
        let mut fixed: Vec<AclRef<'a>> = Vec::with_capacity(acl.len());
        let mut seen = Seen::default();
        let mut distinct: Vec<&AclRef<'a>> = Vec::with_capacity(acl.len());
        for entry in &acl {
            // Most lists have one entry only.
            if acl.len() == 1 || !seen.has(entry)? {
                distinct.push(entry);
            }
        }
        let mut expanded_bytes = 0;
        for entry in distinct {
            if self.refuses_world_writes
                && entry.perms.0 & !Perms::READ.0 != 0
                && means_world(entry)
            {
                return Err(ErrorCode::INVALID_ACL);
            }
            match (entry.scheme.as_deref().ok_or(ErrorCode::INVALID_ACL)?, entry.id.as_deref()) {
                ("world", Some("anyone")) => fixed.push(entry.clone()),
                ("world", None) => return Err(ErrorCode::MARSHALLING_ERROR),
                ("world", _) => return Err(ErrorCode::INVALID_ACL),
                ("auth", _) => {
                    let before = fixed.len();
                    for id in ids.iter().filter(|id| self.proves(id)) {
                        expanded_bytes += id_bytes(id);
                        if expanded_bytes > expanded_bytes_max {
                            return Err(ErrorCode::INVALID_ACL);
                        }
                        fixed.push(AclRef {
                            perms: entry.perms,
                            scheme: Some(id.scheme.as_str().into()),
                            id: Some(id.id.as_str().into()),
                        });
                    }
                    if fixed.len() == before {
                        return Err(ErrorCode::INVALID_ACL);
                    }
                }
                (scheme, id) => {
                    let provider = self.provider(scheme).ok_or(ErrorCode::INVALID_ACL)?;
                    if !provider.is_valid(id.ok_or(ErrorCode::MARSHALLING_ERROR)?) {
                        return Err(ErrorCode::INVALID_ACL);
                    }
                    fixed.push(entry.clone());
                }
            }
        }
        Ok(fixed)
    }

    /// Whether an id proves the client's identity.
    pub fn proves(&self, id: &Id) -> bool {
        self.provider(&id.scheme).is_some_and(AuthProvider::is_authenticated)
    }

    /// An id without its secrets, for logs.
    pub fn shown(&self, scheme: &str, id: &str) -> String {
        let user = self.provider(scheme).map_or("", |provider| provider.user_name(id));
        format!("{scheme}:{user:?}")
    }

    /// A connection's ids as `whoAmI` shows them.
    pub fn who_am_i<'a>(&self, ids: &'a [Id]) -> Vec<ClientInfo<'a>> {
        ids.iter()
            .map(|id| ClientInfo {
                auth_scheme: id.scheme.as_str().into(),
                user: self
                    .provider(&id.scheme)
                    .map_or("", |provider| provider.user_name(&id.id))
                    .into(),
            })
            .collect()
    }
}

/// Whether an entry stands for everybody: `world`, or an address range of zero bits.
fn means_world(entry: &AclRef<'_>) -> bool {
    match entry.scheme.as_deref() {
        Some("world") => true,
        Some("ip") => {
            let bits = entry.id.as_deref().and_then(|id| Some(id.rsplit_once('/')?.1));
            bits.and_then(|bits| bits.parse::<u32>().ok()) == Some(0)
        }
        _ => false,
    }
}

/// The entries of an ACL seen so far. Lists may be as long as a request, so entries are not
/// compared pairwise.
#[derive(Default)]
struct Seen<'e> {
    perms: BTreeSet<i32>,
    schemes: BTreeSet<(i32, &'e str)>,
    ids: BTreeSet<(i32, &'e str, &'e str)>,
}

impl<'e> Seen<'e> {
    /// Whether the entry equals an earlier one. A null that would have to be compared is an error,
    /// as in the original.
    fn has(&mut self, entry: &'e AclRef<'_>) -> Result<bool, ErrorCode> {
        let AclRef { perms, scheme, id } = entry;
        let null = ErrorCode::MARSHALLING_ERROR;
        let perms = perms.0;
        let some_before = !self.perms.insert(perms);
        let Some(scheme) = scheme.as_deref() else {
            return if some_before { Err(null) } else { Ok(false) };
        };
        let some_before = !self.schemes.insert((perms, scheme));
        let Some(id) = id.as_deref() else {
            return if some_before { Err(null) } else { Ok(false) };
        };
        Ok(!self.ids.insert((perms, scheme, id)))
    }
}

/// Bytes of an id in an ACL: permissions, two lengths, two strings.
fn id_bytes(id: &Id) -> usize {
    4 + 4 + id.scheme.len() + 4 + id.id.len()
}

fn is_world(id: &Id) -> bool {
    id.scheme == "world" && id.id == "anyone"
}

/// The ACL as shown without ADMIN permission: digests are masked (CVE-2019-0201).
pub fn masked(acl: &Acl) -> AclRef<'_> {
    let mut shown = AclRef::from(acl);
    if acl.id.scheme == "digest"
        && let Some((user, _)) = acl.id.id.split_once(':')
    {
        shown.id = Some(format!("{user}:x").into());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E=";

    fn schemes() -> Schemes {
        Schemes::new(vec![Box::new(Digest::new(DigestAlgorithm::default(), None))], false)
    }

    fn add(schemes: &Schemes, ids: &Credentials, auth: &[u8]) -> Result<Credentials, Refused> {
        let claim = Claim::new([127, 0, 0, 1].into(), Some(auth));
        schemes.authenticate(ids, "digest", &claim).map(Option::unwrap)
    }

    fn fix_up<'a>(
        schemes: &Schemes,
        acl: Option<Vec<AclRef<'a>>>,
        ids: &'a [Id],
    ) -> Result<Vec<AclRef<'a>>, ErrorCode> {
        schemes.fix_up(acl, ids, EXPANDED_BYTES_MAX)
    }

    fn entry(perms: i32, scheme: &'static str, id: &'static str) -> AclRef<'static> {
        AclRef { perms: Perms(perms), scheme: Some(scheme.into()), id: Some(id.into()) }
    }

    #[test]
    fn writes_of_everybody_can_be_refused() {
        let open = schemes();
        let closed = schemes().refusing_world_writes(true);
        let start = closed.initial([127, 0, 0, 1].into());
        for (perms, scheme, id, is_refused) in [
            (31, "world", "anyone", true),
            (2, "world", "anyone", true),
            (1 | 4, "world", "anyone", true),
            (16, "world", "anyone", true),
            (1 << 8, "world", "anyone", true),
            (1, "world", "anyone", false),
            (31, "ip", "0.0.0.0/0", true),
            (31, "ip", "10.0.0.0/00", true),
            (31, "ip", "::/0", true),
            (1, "ip", "::/0", false),
            (31, "ip", "10.0.0.0/8", false),
            (31, "digest", ALICE, false),
        ] {
            let acl = || Some(vec![entry(1, "ip", "127.0.0.1"), entry(perms, scheme, id)]);
            assert!(fix_up(&open, acl(), &start).is_ok(), "{perms} {scheme} {id}");
            let refused = fix_up(&closed, acl(), &start) == Err(ErrorCode::INVALID_ACL);
            assert_eq!(refused, is_refused, "{perms} {scheme} {id}");
        }
    }

    #[test]
    fn auth_entries_become_the_connections_own_ids() {
        let schemes = schemes();
        let home = IpAddr::from([127, 0, 0, 1]);
        let start = schemes.initial(home);
        assert_eq!(
            fix_up(&schemes, Some(vec![entry(31, "auth", "")]), &start),
            Err(ErrorCode::INVALID_ACL)
        );
        let ids = add(&schemes, &start, b"alice:secret").unwrap();
        let again = add(&schemes, &ids, b"alice:secret").unwrap();
        assert_eq!(again.len(), 2, "duplicates collapse");
        let fixed = fix_up(&schemes, Some(vec![entry(31, "auth", "")]), &ids).unwrap();
        assert_eq!(fixed, vec![entry(31, "digest", ALICE)]);
    }

    #[test]
    fn a_connection_has_only_so_many_ids() {
        let schemes = schemes();
        let home = IpAddr::from([127, 0, 0, 1]);
        let mut ids = schemes.initial(home);
        for at in 1..IDS_MAX {
            let user = format!("user{at}:secret");
            ids = add(&schemes, &ids, user.as_bytes()).unwrap();
        }
        assert_eq!(ids.len(), IDS_MAX);
        // An id that the connection already has is not counted again.
        add(&schemes, &ids, b"user1:secret").unwrap();
        add(&schemes, &ids, b"one:more").unwrap_err();
        let long = "u".repeat(IDS_BYTES_MAX);
        let start = schemes.initial(home);
        add(&schemes, &start, long.as_bytes()).unwrap_err();
    }

    #[test]
    fn auth_entries_do_not_expand_without_end() {
        let schemes = schemes();
        let home = IpAddr::from([127, 0, 0, 1]);
        let mut ids = schemes.initial(home);
        for at in 0..10 {
            let user = format!("{}{at}:secret", "u".repeat(1000));
            ids = add(&schemes, &ids, user.as_bytes()).unwrap();
        }
        let entries = |count| (0..count).map(|perms| entry(perms, "auth", "")).collect();
        assert_eq!(fix_up(&schemes, Some(entries(40)), &ids).unwrap().len(), 400);
        assert_eq!(fix_up(&schemes, Some(entries(60)), &ids), Err(ErrorCode::INVALID_ACL));
    }

    #[test]
    fn entries_that_no_scheme_accepts_are_refused() {
        let schemes = schemes();
        for bad in [
            entry(31, "world", "other"),
            entry(31, "digest", "a:b:c"),
            entry(31, "digest", "a"),
            entry(31, "ip", "300.1.1.1"),
            entry(31, "ip", "10.0.0.0/33"),
            entry(31, "super", "x"),
            entry(31, "nope", "x"),
        ] {
            let fixed = fix_up(&schemes, Some(vec![bad.clone()]), &[]);
            assert_eq!(fixed, Err(ErrorCode::INVALID_ACL), "{bad:?}");
        }
        assert_eq!(fix_up(&schemes, None, &[]), Err(ErrorCode::INVALID_ACL));
        let twice = vec![entry(1, "ip", "10.0.0.0/8"), entry(1, "ip", "10.0.0.0/8")];
        assert_eq!(fix_up(&schemes, Some(twice), &[]).unwrap().len(), 1);
    }

    #[test]
    fn a_list_as_long_as_a_request_is_looked_at_once() {
        // Comparing each with each would take longer than anybody waits.
        let id = |at: usize| format!("10.{}.{}.{}", at >> 16, at >> 8 & 0xff, at & 0xff);
        let own =
            |at| AclRef { perms: Perms(1), scheme: Some("ip".into()), id: Some(id(at).into()) };
        let list: Vec<_> = (0..400_000).map(|at| own(at % 300_000)).collect();
        assert_eq!(fix_up(&schemes(), Some(list), &[]).unwrap().len(), 300_000);
        // Nulls count only where they have to be compared.
        let null = |perms, scheme: Option<&'static str>| AclRef {
            perms: Perms(perms),
            scheme: scheme.map(Into::into),
            id: None,
        };
        let mut lists = [
            (vec![null(1, None)], ErrorCode::INVALID_ACL),
            (vec![null(1, None), null(2, None)], ErrorCode::INVALID_ACL),
            (vec![null(1, None), null(1, None)], ErrorCode::MARSHALLING_ERROR),
            (vec![null(1, None), entry(1, "x", "y")], ErrorCode::INVALID_ACL),
            (vec![entry(1, "x", "y"), null(1, None)], ErrorCode::MARSHALLING_ERROR),
            (vec![entry(1, "x", "y"), null(1, Some("x"))], ErrorCode::MARSHALLING_ERROR),
            (vec![entry(1, "x", "y"), null(1, Some("z"))], ErrorCode::INVALID_ACL),
            (vec![null(1, Some("x")), entry(1, "x", "y")], ErrorCode::INVALID_ACL),
        ];
        for (list, code) in &mut lists {
            assert_eq!(fix_up(&schemes(), Some(std::mem::take(list)), &[]), Err(*code));
        }
    }

    #[test]
    fn an_entry_permits_whom_it_means() {
        let schemes = schemes();
        let acl = [
            Acl { perms: Perms::READ, id: Id::new("ip", "10.0.0.0/8") },
            Acl { perms: Perms::ALL, id: Id::new("digest", ALICE) },
        ];
        let near = [Id::new("ip", "10.1.2.3")];
        assert!(schemes.permits(&acl, Perms::READ, &near));
        assert!(!schemes.permits(&acl, Perms::WRITE, &near));
        assert!(schemes.permits(&acl, Perms::WRITE, &[Id::new("digest", ALICE)]));
        assert!(schemes.permits(&acl, Perms::ADMIN, &[Id::new("super", "")]));
        assert!(schemes.permits(&[], Perms::ADMIN, &[]));
        assert!(!schemes.permits(&acl, Perms::READ, &[]));
    }

    #[test]
    fn digests_are_masked() {
        let acl = Acl { perms: Perms::ALL, id: Id::new("digest", "a:b:c") };
        assert_eq!(masked(&acl).id.as_deref(), Some("a:x"));
    }
}
