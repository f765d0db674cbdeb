//! Input before authentication: key stores, JAAS files, rules for names, DIGEST-MD5, answers of
//! OCSP, and the first bytes of a connection.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use zebu_auth::Secret;
use zebu_auth::certificate::Facts;
use zebu_auth::digest_md5::{
    CLIENTS, Client, Failure, MESSAGE_BYTES_MAX, NONCE_BYTES, Server, Step,
};
use zebu_auth::jaas::{Flag, Jaas};
use zebu_auth::kerberos::{Principal, Rules};
use zebu_auth::outside::{self, Input, Judged, Output, Outside};
use zebu_auth::store::{Contents, sniff};
use zebu_auth::tls::ocsp::http::body;
use zebu_auth::tls::ocsp::{Ocsp, OcspError};
use zebu_auth::tls::{Detection, HEADER_BYTES, detect};

/// The password of the seeds.
const PASSWORD: &str = "testpass";

/// The maximum number of computed rounds for one store; the seeds need two rounds each.
const ROUNDS_MAX: u32 = 64;

/// A store of any kind is read, or refused with a message of one line.
pub(crate) fn key_store(bytes: &[u8]) {
    let kind = sniff(bytes);
    let read = || Contents::read_within(bytes, Some(&Secret::from(PASSWORD)), ROUNDS_MAX);
    match read() {
        Err(fault) => one_line(&fault.to_string()),
        Ok(contents) => {
            assert!(kind.is_ok());
            match contents.trusted() {
                Err(fault) => one_line(&fault.to_string()),
                Ok(trusted) => {
                    assert!(!trusted.is_empty());
                    assert!(trusted.iter().all(|certificate| Facts::of(certificate).is_ok()));
                }
            }
            let now = "2027-01-01T00:00:00Z".parse().expect("it is a time");
            let again = read().expect("it was read before");
            match again.identity(now) {
                Err(fault) => one_line(&fault.to_string()),
                Ok(identity) => assert_eq!(Facts::of(&identity.chain[0]), Ok(identity.facts)),
            }
        }
    }
}

fn one_line(text: &str) {
    assert!(!text.contains('\n'), "{text:?}");
    assert!(!text.contains(PASSWORD), "{text:?}");
}

/// A file means the same when everything in it is quoted.
pub(crate) fn jaas(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let path = Path::new("jaas.conf");
    let jaas = match Jaas::parse(path, &text, &|_| None) {
        Ok(jaas) => jaas,
        Err(error) => {
            let line = error.line.expect("a fault of the grammar has a line");
            assert!((1..=text.split('\n').count()).contains(&line), "{error}");
            return;
        }
    };
    let mut again = String::new();
    for name in jaas.names() {
        again += &format!("{} {{", quoted(name));
        for module in jaas.section(name).expect("it is named") {
            let flag = match module.flag {
                Flag::Required => "required",
                Flag::Requisite => "requisite",
                Flag::Sufficient => "sufficient",
                Flag::Optional => "optional",
            };
            again += &format!(" {} {flag}", quoted(&module.class));
            for (option, value) in &module.options {
                let value = value.expose_str().expect("it was text");
                again += &format!(" {}={}", quoted(option), quoted(value));
            }
            again.push(';');
        }
        again += " };";
        // The code does not panic on it, and prints no value.
        match jaas.login(name) {
            Ok(login) => drop(format!("{login:?}")),
            Err(error) => drop(error.to_string()),
        }
    }
    let again = Jaas::parse(path, &again, &|_| None).unwrap_or_else(|error| panic!("{error}"));
    for name in jaas.names() {
        let (before, after) = (jaas.section(name), again.section(name));
        let plain = |modules: Option<&[zebu_auth::jaas::Module]>| {
            let modules = modules.expect("it is named").iter();
            modules
                .map(|module| (module.class.clone(), module.flag, module.options.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(plain(before), plain(after));
    }
    assert_eq!(jaas.names().count(), again.names().count());
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

/// One side of DIGEST-MD5 receives the messages of an unknown peer.
pub(crate) fn digest_md5(bytes: &[u8]) {
    let Some((side, token)) = bytes.split_first() else { return };
    let password = |user: &str| (user == "bob").then(|| Secret::from("bobsecret"));
    let mut server = Server::new(CLIENTS, [0; NONCE_BYTES]);
    let challenge = server.step(b"", password);
    assert!(matches!(challenge, Ok(Step::Challenge(_))));
    if side & 1 == 0 {
        match server.step(token, password) {
            Ok(Step::Challenge(_)) => panic!("a second challenge"),
            Ok(Step::Done { who, .. }) => assert_eq!(who.user, "bob"),
            Err(failure) => assert!(!failure.to_string().contains("bobsecret")),
        }
        assert_eq!(server.step(token, password), Err(Failure::Order));
        return;
    }
    let mut client = Client::new(CLIENTS, "bob".into(), "bobsecret".into(), [1; NONCE_BYTES]);
    let Ok(said) = client.step(token) else {
        assert_eq!(client.step(token), Err(Failure::Order));
        return;
    };
    let said = said.expect("a challenge is answered");
    assert!(said.len() <= 2 * MESSAGE_BYTES_MAX + 512);
    if said.len() <= MESSAGE_BYTES_MAX {
        let heard = server.step(&said, password);
        assert!(!matches!(heard, Err(Failure::Message(_))), "{heard:?}");
    }
    assert!(client.step(b"rspauth=00000000000000000000000000000000").is_err());
    assert!(!client.is_done());
}

/// The time for which a client waits for the verdict of a program.
const VERDICT_TIME: Duration = Duration::from_secs(5);

/// The authentication program may answer anything. Each client gets one verdict, which does not
/// depend on the sizes of the received pieces.
pub(crate) fn external_auth(bytes: &[u8]) {
    let Some((clients, said)) = bytes.split_first() else { return };
    let clients = u64::from(clients % 4);
    let whole = verdicts(clients, said, said.len().max(1));
    assert_eq!(verdicts(clients, said, 13), whole);
}

/// The verdicts for this number of clients, given the program's answers in pieces of this size. The
/// program was asked about all of them before.
fn verdicts(clients: u64, said: &[u8], piece: usize) -> Vec<Output> {
    let rules = outside::Rules { time_max: VERDICT_TIME, asked_max: 3, cache_time: VERDICT_TIME };
    let mut core = Outside::new("fuzzed", rules, [7; 32]);
    let mut out = Vec::new();
    let peer = IpAddr::from([127, 0, 0, 1]);
    for ticket in 0..clients {
        let data = Some(Secret::new(format!("user-{ticket}:{PASSWORD}").into_bytes()));
        core.step(Duration::ZERO, Input::Ask { ticket, peer, data }, &mut out);
    }
    core.step(Duration::ZERO, Input::Connected, &mut out);
    for piece in said.chunks(piece) {
        core.step(Duration::ZERO, Input::Received(piece.to_vec()), &mut out);
    }
    core.step(VERDICT_TIME, Input::Tick, &mut out);
    assert_eq!(core.due(), None, "nobody waits any longer");
    let mut judged = vec![0; clients as usize];
    for output in &out {
        match output {
            Output::Judged(ticket, verdict) => {
                judged[*ticket as usize] += 1;
                if let Judged::Ids(ids) = verdict {
                    assert!(!ids.is_empty() && ids.iter().all(|id| outside::is_id(id)));
                }
            }
            Output::Warn(text) | Output::Inform(text) => assert!(!text.contains('\n'), "{text:?}"),
            Output::Dial | Output::Send(_) | Output::Close => {}
        }
    }
    assert!(judged.iter().all(|count| *count == 1), "one verdict each: {judged:?}");
    out
}

/// The certificate that a responder is asked about, its issuer, and the answers that the issuer has
/// signed.
const LEAF: &[u8] = include_bytes!("../../../crates/auth/tests/fixtures/ocsp/leaf.pem");
const ISSUER: &[u8] = include_bytes!("../../../crates/auth/tests/fixtures/ocsp/inter.pem");
const SIGNED: [&[u8]; 4] = [
    include_bytes!("../../../crates/auth/tests/fixtures/ocsp/good.answer"),
    include_bytes!("../../../crates/auth/tests/fixtures/ocsp/revoked.answer"),
    include_bytes!("../../../crates/auth/tests/fixtures/ocsp/undated.answer"),
    include_bytes!("../../../crates/auth/tests/fixtures/ocsp/delegated.answer"),
];
/// The signed bytes of such an answer, after its header.
const COVERED: std::ops::Range<usize> = 60..140;

/// A responder may answer anything. The code believes only answers that the issuer has signed.
pub(crate) fn ocsp(bytes: &[u8]) {
    let read = |pem| Contents::read(pem, None).and_then(Contents::trusted).expect("a certificate");
    let ocsp = Ocsp::new(&read(ISSUER), &[]).expect("an authority");
    // A time soon after the answers were created.
    let now = "2026-11-28T09:30:00Z".parse().expect("it is a time");
    let questions = ocsp.questions(&read(LEAF), now).expect("the issuer is there");
    let [question] = questions.as_slice() else { panic!("one certificate, one question") };
    let answer = match body(bytes, true) {
        Ok(answer) => answer.expect("nothing more comes"),
        Err(why) => {
            one_line(&why.to_string());
            bytes
        }
    };
    let settled = ocsp.settle(question, Ok(answer), now);
    if let Err(error) = &settled {
        one_line(&error.to_string());
    }
    if matches!(settled, Ok(()) | Err(OcspError::Revoked { .. })) {
        let covers = |signed: &&[u8]| {
            let part = &signed[COVERED];
            answer.windows(part.len()).any(|window| window == part)
        };
        assert!(SIGNED.iter().any(covers), "nobody has signed this");
    }
}

/// Five bytes decide, and further bytes do not change the decision.
pub(crate) fn client_hello(bytes: &[u8]) {
    let whole = detect(bytes);
    let few = &bytes[..bytes.len().min(HEADER_BYTES)];
    assert_eq!(detect(few), whole);
    for length in 0..few.len() {
        let earlier = detect(&few[..length]);
        assert!(earlier == Detection::More || earlier == whole);
    }
    assert!(whole != Detection::Tls || bytes[0] == 0x16);
    assert!(whole != Detection::More || bytes.len() < HEADER_BYTES);
}

/// Rules are refused with a message of one line, or produce short names.
pub(crate) fn auth_to_local(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (rules, names) = text.split_once('\n').unwrap_or((&text, ""));
    let rules = match Rules::parse(rules) {
        Ok(rules) => rules,
        Err(error) => return one_line(&error.to_string()),
    };
    for name in names.lines() {
        let Ok(principal) = Principal::parse(name) else { continue };
        assert_eq!(principal.to_string(), name);
        let Ok(short) = rules.short_name(&principal, "EXAMPLE.ORG") else { continue };
        assert!(principal.realm().is_none() || !short.contains(['/', '@']), "{short:?}");
    }
}
