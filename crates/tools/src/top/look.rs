//! Sends four-letter words to all servers at the same time, and parses the answers.
//!
//! Every server answers `srvr`. A server may have disabled `mntr`, `cons` and `conf`; their facts
//! are then missing, and a note says so.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use zebu_proto::{HostPort, ServerId, Zxid};
use zebu_zab::config::{Member, Membership};

use crate::doctor::answers::client_at;

/// Sends a four-letter word to a server.
pub(super) type Ask<'a> = dyn Fn(&HostPort, &str) -> io::Result<String> + Sync + 'a;

/// The words that are sent besides `srvr`, and the facts that are missing without each word.
const WORDS: [(&str, &str); 3] = [
    ("mntr", "no watches, fsync, paths or operations"),
    ("cons", "no clients"),
    ("conf", "no ids and no other members"),
];

/// The most servers that are asked: the list of members comes from a server.
const SERVERS_MAX: usize = 64;

/// An observation of one server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    /// The address at which it was asked.
    pub(super) at: HostPort,
    /// The time since the first observation.
    pub(super) when: Duration,
    /// Its facts, or the reason why there are none.
    pub(super) facts: Result<Facts, String>,
}

/// The facts that one server reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    /// Its id; a standalone server has none.
    pub(super) id: Option<ServerId>,
    /// Its version; empty if it does not serve clients.
    pub(super) version: Option<String>,
    /// `leader`, `follower`, `observer`, `standalone`, `read-only`; empty if it does not serve
    /// clients.
    pub(super) mode: Option<String>,
    /// The last transaction in its tree.
    pub(super) zxid: Option<Zxid>,
    /// The numbers of `srvr`, by the text before the colon.
    pub(super) srvr: BTreeMap<String, f64>,
    /// The latency of requests in ms: the least, the average and the largest.
    pub(super) latency: Option<[f64; 3]>,
    /// The numbers of `mntr`, without `zk_`.
    pub(super) mntr: BTreeMap<String, f64>,
    /// The connections that have a session.
    pub(super) clients: Vec<Client>,
    /// The members that it knows.
    pub(super) members: Option<Membership>,
    /// Words that the server does not answer, and the facts that are missing without them.
    pub(super) missing: Vec<String>,
}

/// A connection with a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Client {
    /// The client's address.
    pub(super) address: String,
    /// The session's id as text.
    pub(super) session: String,
    /// Requests in progress.
    pub(super) queued: u64,
    /// Frames received from the client.
    pub(super) received: u64,
    /// Its last operation.
    pub(super) last_op: String,
    /// Average latency in ms.
    pub(super) latency_avg: u64,
    /// Largest latency in ms.
    pub(super) latency_max: u64,
}

/// Asks these servers and, unless `only_given`, the members that they name, all at the same time.
/// `is_secure`: with TLS, at the port of the first server.
pub(super) fn look(
    given: &[HostPort],
    known: &[HostPort],
    start: Instant,
    only_given: bool,
    is_secure: bool,
    ask: &Ask<'_>,
) -> Vec<Sample> {
    let mut asked = given.to_vec();
    asked.extend(known.iter().filter(|at| !given.contains(at)).cloned());
    let mut samples = ask_all(&asked, start, ask);
    if !only_given {
        let others = others(&samples, is_secure);
        if !others.is_empty() {
            samples.extend(ask_all(&others, start, ask));
        }
    }
    once_each(samples, given, is_secure)
}

fn ask_all(servers: &[HostPort], start: Instant, ask: &Ask<'_>) -> Vec<Sample> {
    thread::scope(|scope| {
        let asking: Vec<_> =
            servers.iter().map(|at| scope.spawn(move || ask_one(at, start, ask))).collect();
        asking.into_iter().map(|one| one.join().expect("asking a server does not panic")).collect()
    })
}

/// The members that have not answered yet, with the addresses in the newest list of members.
fn others(samples: &[Sample], is_secure: bool) -> Vec<HostPort> {
    let facts = || samples.iter().filter_map(|sample| sample.facts.as_ref().ok());
    let Some(newest) = facts().filter_map(|it| it.members.as_ref()).max_by_key(|it| it.version())
    else {
        return Vec::new();
    };
    let answered: Vec<_> = facts().filter_map(|facts| facts.id).collect();
    let port = samples.first().map(|sample| sample.at.port);
    newest
        .members()
        .filter(|member| !answered.contains(&member.id))
        .filter_map(|member| client_of(member, newest, is_secure, port))
        .filter(|at| samples.iter().all(|sample| sample.at != *at))
        .take(SERVERS_MAX.saturating_sub(samples.len()))
        .collect()
}

/// Removes duplicates: a server that was asked at two addresses counts once, and a silent former
/// member does not count.
fn once_each(samples: Vec<Sample>, given: &[HostPort], is_secure: bool) -> Vec<Sample> {
    let newest = samples
        .iter()
        .filter_map(|sample| sample.facts.as_ref().ok()?.members.clone())
        .max_by_key(Membership::version);
    let port = samples.first().map(|sample| sample.at.port);
    let is_member = |at: &HostPort| {
        newest.as_ref().is_none_or(|all| {
            let mut clients = all.members().map(|member| client_of(member, all, is_secure, port));
            clients.any(|client| client.as_ref() == Some(at))
        })
    };
    let mut seen = Vec::new();
    let mut once = samples;
    once.retain(|sample| match sample.facts.as_ref().map(|facts| facts.id) {
        Ok(Some(id)) => !seen.contains(&id) && (seen.push(id), true).1,
        Ok(None) => true,
        Err(_) => given.contains(&sample.at) || is_member(&sample.at),
    });
    once.sort_by_key(|sample| {
        let id = sample.facts.as_ref().ok().and_then(|facts| facts.id);
        (id.is_none(), id)
    });
    once
}

/// The client address of a member. Its line names a port without TLS.
fn client_of(
    member: &Member,
    all: &Membership,
    is_secure: bool,
    port: Option<u16>,
) -> Option<HostPort> {
    client_at(member, all, member.client.as_ref().filter(|_| !is_secure), port)
}

fn ask_one(at: &HostPort, start: Instant, ask: &Ask<'_>) -> Sample {
    let srvr = ask(at, "srvr").map_err(|error| clean(&error.to_string()));
    let when = start.elapsed();
    let facts = srvr.and_then(|srvr| {
        let mut facts = Facts::of_srvr(&srvr)
            .ok_or_else(|| format!("the answer to srvr is {:?}", first_line(&srvr)))?;
        for (word, without) in WORDS {
            let why = match ask(at, word) {
                Ok(answer) if !is_refused(&answer) => {
                    facts.add(word, &answer);
                    continue;
                }
                Ok(answer) => first_line(&answer),
                Err(error) => clean(&error.to_string()),
            };
            // A server that does not serve clients reports no facts. Its configuration is not the
            // cause.
            if facts.mode.is_some() {
                facts.missing.push(format!("{word}: {without} ({why})"));
            }
        }
        Ok(facts)
    });
    Sample { at: at.clone(), when, facts }
}

fn first_line(answer: &str) -> String {
    clean(&answer.lines().next().unwrap_or_default().chars().take(100).collect::<String>())
}

fn is_refused(answer: &str) -> bool {
    answer.contains("is not executed because it is not in the whitelist")
        || answer.starts_with(NOT_SERVING)
        || answer.is_empty()
}

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// A server's text without control characters that a terminal would interpret.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

impl Facts {
    /// Parses the answer to `srvr`; `None` if it is invalid.
    fn of_srvr(answer: &str) -> Option<Self> {
        let mut facts = Self::default();
        if answer.starts_with(NOT_SERVING) {
            return Some(facts);
        }
        for (key, value) in answer.lines().filter_map(|line| line.split_once(": ")) {
            let value = value.trim();
            match key {
                "Zookeeper version" => {
                    let version = value.split([',', '-']).next().unwrap_or_default();
                    facts.version = Some(clean(version));
                }
                "Mode" => facts.mode = Some(clean(value)),
                "Zxid" => {
                    let digits = value.strip_prefix("0x")?;
                    facts.zxid = u64::from_str_radix(digits, 16).ok().map(|it| Zxid(it as i64));
                }
                "Latency min/avg/max" => {
                    let parts: Option<Vec<f64>> = value.split('/').map(number).collect();
                    facts.latency = parts.and_then(|parts| parts.try_into().ok());
                }
                _ => {
                    if let Some(value) = number(value) {
                        facts.srvr.insert(key.to_owned(), value);
                    }
                }
            }
        }
        facts.version.is_some().then_some(facts)
    }

    fn add(&mut self, word: &str, answer: &str) {
        match word {
            "mntr" => {
                let lines = answer.lines().filter_map(|line| line.split_once('\t'));
                self.mntr = lines
                    .filter_map(|(name, value)| {
                        Some((clean(name.strip_prefix("zk_")?), number(value)?))
                    })
                    .collect();
            }
            "cons" => self.clients = answer.lines().filter_map(Client::parse).collect(),
            "conf" => {
                let id = answer.lines().find_map(|line| line.strip_prefix("serverId="));
                self.members = answer
                    .split_once("membership: ")
                    .and_then(|(_, text)| Membership::agreed(text.trim().as_bytes()));
                // A standalone server reports the id 0, which a member may have, too.
                self.id = id
                    .and_then(|id| id.trim().parse().ok())
                    .map(ServerId)
                    .filter(|_| self.members.is_some());
            }
            other => unreachable!("{other} is not asked"),
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

impl Client {
    /// Parses a line of `cons`; `None` for a connection without a session, such as that of this
    /// request.
    fn parse(line: &str) -> Option<Self> {
        let (address, rest) = line.trim().strip_prefix('/')?.rsplit_once("](")?;
        let (address, _) = address.rsplit_once('[')?;
        let fields: BTreeMap<_, _> = rest
            .trim_end_matches(')')
            .split(',')
            .filter_map(|field| field.split_once('='))
            .collect();
        let count = |name: &str| fields.get(name).and_then(|it| it.parse().ok()).unwrap_or(0);
        Some(Self {
            address: clean(address),
            session: clean(fields.get("sid")?),
            queued: count("queued"),
            received: count("recved"),
            last_op: clean(fields.get("lop").unwrap_or(&"NA")),
            latency_avg: count("avglat"),
            latency_max: count("maxlat"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LEADER_CONF, SRVR};
    use super::*;

    fn at(port: u16) -> HostPort {
        HostPort::new("127.0.0.1", port)
    }

    #[test]
    fn srvr_is_read() {
        let facts = Facts::of_srvr(SRVR).unwrap();
        assert_eq!(facts.version.as_deref(), Some("3.9.5"));
        assert_eq!(facts.mode.as_deref(), Some("leader"));
        assert_eq!(facts.zxid, Some(Zxid(0x2_0000_001a)));
        assert_eq!(facts.latency, Some([0.0, 1.878, 11.0]));
        assert_eq!(facts.srvr["Received"], 49.0);
        assert_eq!(facts.srvr["Node count"], 12.0);
        assert_eq!(Facts::of_srvr("hello"), None);
        assert_eq!(Facts::of_srvr(&format!("{NOT_SERVING}\n")), Some(Facts::default()));
    }

    #[test]
    fn connections_without_a_session_are_left_out() {
        let cons = " /127.0.0.1:38256[1](queued=2,recved=5,sent=5,sid=0x10,lop=ADDW,est=1,to=10000,lcxid=0x4,\
                    lzxid=0x19,lresp=2,llat=0,minlat=0,avglat=1,maxlat=3)\n /[0:0:0:0:0:0:0:1]:38278[0](queued=0,recved=1,sent=0)\n\n";
        let mut facts = Facts::default();
        facts.add("cons", cons);
        let expected = Client {
            address: "127.0.0.1:38256".to_owned(),
            session: "0x10".to_owned(),
            queued: 2,
            received: 5,
            last_op: "ADDW".to_owned(),
            latency_avg: 1,
            latency_max: 3,
        };
        assert_eq!(facts.clients, [expected]);
    }

    #[test]
    fn the_members_of_an_ensemble_are_found_from_one_of_them() {
        let ask = |at: &HostPort, word: &str| match (at.port, word) {
            (1, "srvr") => Ok(SRVR.to_owned()),
            (2, "srvr") => Ok(SRVR.replace("leader", "follower")),
            (1 | 2, "conf") => {
                Ok(LEADER_CONF.replace("serverId=1", &format!("serverId={}", at.port)))
            }
            (1 | 2, _) => Ok(String::new()),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        };
        let samples = look(&[at(2)], &[], Instant::now(), false, false, &ask);
        let found: Vec<_> = samples
            .iter()
            .map(|it| (it.at.port, it.facts.as_ref().ok().and_then(|facts| facts.id)))
            .collect();
        assert_eq!(found, [(1, Some(ServerId(1))), (2, Some(ServerId(2))), (3, None)]);
        let samples = look(&[at(2)], &[], Instant::now(), true, false, &ask);
        assert_eq!(samples.len(), 1, "only those that were named");
    }

    #[test]
    fn a_word_that_is_switched_off_is_named_with_what_is_missing() {
        let ask = |_: &HostPort, word: &str| match word {
            "srvr" => Ok(SRVR.to_owned()),
            word => Ok(format!(
                "{word} is not executed because it is not in the whitelist.\u{1b}[31m\n"
            )),
        };
        let samples = look(&[at(1)], &[], Instant::now(), false, false, &ask);
        let missing = &samples[0].facts.as_ref().unwrap().missing;
        assert_eq!(missing.len(), 3);
        assert!(missing[1].starts_with("cons: no clients (cons is not executed"), "{missing:?}");
        assert!(!missing[1].contains('\u{1b}'), "a terminal obeys nothing that a server says");
    }

    #[test]
    fn what_is_no_answer_of_a_server_is_told() {
        let ask = |_: &HostPort, _: &str| Ok("HTTP/1.1 400 Bad Request\r\n".to_owned());
        let samples = look(&[at(1)], &[], Instant::now(), false, false, &ask);
        let why = samples[0].facts.clone().unwrap_err();
        assert_eq!(why, "the answer to srvr is \"HTTP/1.1 400 Bad Request\"");
    }
}
