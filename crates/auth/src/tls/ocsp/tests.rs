//! Requests and answers, compared with those of openssl, which `tests/fixtures/ocsp/make.sh` made.

#![expect(clippy::disallowed_methods, reason = "a test reads the fixtures")]

use jiff::ToSpan as _;

use super::*;
use crate::store::{PasswordSource, StoreFile, pem};

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/ocsp/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

fn certificate(name: &str) -> CertificateDer<'static> {
    let text = file(&format!("{name}.pem"));
    let blocks = pem::blocks(&text).unwrap();
    CertificateDer::from(blocks[0].der.to_vec())
}

fn chain(names: &[&str]) -> Vec<CertificateDer<'static>> {
    names.iter().map(|name| certificate(name)).collect()
}

fn trusting(name: &str) -> Ocsp {
    Ocsp::new(&[certificate(name)], &[]).unwrap()
}

/// When the answers were made.
fn made() -> Timestamp {
    let text = String::from_utf8(file("now.txt")).unwrap();
    Timestamp::from_second(text.trim().parse().unwrap()).unwrap()
}

/// What becomes of the certificate `leaf` of the authority `inter` with this answer, `hours` after
/// it was made.
fn settled(answer: &str, hours: i64) -> Result<(), String> {
    let ocsp = trusting("inter");
    let now = made() + hours.hours();
    let questions = ocsp.questions(&chain(&["leaf", "inter"]), now).unwrap();
    let [question] = &questions[..] else { panic!("{questions:?}") };
    let answer = file(&format!("{answer}.answer"));
    ocsp.settle(question, Ok(&answer), now).map_err(|error| error.to_string())
}

#[test]
fn questions_are_those_of_openssl_and_leave_out_what_is_trusted() {
    let questions = trusting("root").questions(&chain(&["leaf", "inter", "root"]), made()).unwrap();
    let [leaf, inter] = &questions[..] else { panic!("{questions:?}") };
    assert_eq!(leaf.request(), file("leaf.request"));
    assert_eq!(inter.request(), file("inter.request"));
    assert_eq!(leaf.place().unwrap().address(), ("ocsp.example.org", 8888));
    // The authority is trusted, and so is one that is trusted below another.
    let asked =
        |trusted, names: &[&str]| trusting(trusted).questions(&chain(names), made()).unwrap().len();
    assert_eq!(asked("root", &["inter"]), 1);
    assert_eq!(asked("inter", &["leaf", "inter", "root"]), 1);
    assert_eq!(asked("leaf", &["leaf", "inter", "root"]), 0);
    // One certificate several times is one question.
    assert_eq!(asked("root", &["leaf", "inter", "inter"]), 2);
}

#[test]
fn an_answer_of_the_issuer_or_its_responder_counts() {
    assert_eq!(settled("good", 0), Ok(()));
    assert_eq!(settled("delegated", 1), Ok(()));
    assert_eq!(settled("undated", 0), Ok(()));
    let revoked = settled("revoked", 1).unwrap_err();
    assert_eq!(
        revoked,
        "the certificate of \"CN=leaf\" was revoked at 2026-01-01T00:00:00Z, according to its responder \
         http://ocsp.example.org:8888/status"
    );
}

#[test]
fn whatever_does_not_say_good_refuses_the_certificate() {
    for (answer, hours, why) in [
        ("unknown", 1, "does not know the certificate"),
        ("usurped", 1, "neither the certificate's issuer has signed"),
        ("later", 0, "says that it has to be asked again later"),
        // A response without a next date is as of now.
        ("undated", 1, "sends a response that is out of date"),
        ("good", 24 * 8, "sends a response that is out of date: it is of "),
        ("good", -1, "sends a response that is out of date: it is of "),
        // Signed by an authority that has not issued this certificate.
        ("inter", 1, "neither the certificate's issuer has signed"),
    ] {
        let error = settled(answer, hours).unwrap_err();
        let start = "whether the certificate of \"CN=leaf\" is revoked is not known: the responder \
                     http://ocsp.example.org:8888/status ";
        assert!(error.starts_with(start) && error.contains(why), "{answer}: {error}");
    }
    let ocsp = trusting("root");
    let questions = ocsp.questions(&chain(&["silent", "inter"]), made()).unwrap();
    let error = ocsp.settle(&questions[0], Ok(&[]), made()).unwrap_err().to_string();
    assert!(error.ends_with("is not known: it names no responder"), "{error}");
    let questions = ocsp.questions(&chain(&["leaf", "inter"]), made()).unwrap();
    let silent = Err(ResponderFault::Slow(5));
    let error = ocsp.settle(&questions[0], silent, made()).unwrap_err().to_string();
    assert!(error.ends_with("/status does not answer within 5 s"), "{error}");
    let alone = ocsp.questions(&chain(&["leaf"]), made()).unwrap_err();
    assert_eq!(alone, OcspError::Chain("its issuer is missing"));
}

#[test]
fn any_cut_or_changed_answer_is_refused() {
    let ocsp = trusting("inter");
    let question = &ocsp.all_questions(&chain(&["leaf"])).unwrap()[0];
    for name in ["good", "delegated"] {
        let answer = file(&format!("{name}.answer"));
        for end in 0..answer.len() {
            assert!(ocsp.settle(question, Ok(&answer[..end]), made()).is_err(), "{name} {end}");
        }
        // The signature follows the data, and then optional certificates.
        let data = answer.windows(4).position(|part| part == [0x30, 0x0a, 0x06, 0x08]).unwrap();
        for at in 0..data {
            let mut changed = answer.clone();
            changed[at] ^= 1;
            assert!(ocsp.settle(question, Ok(&changed), made()).is_err(), "{name} {at}");
        }
    }
}

#[test]
fn answers_are_remembered_until_they_end_and_an_hour_at_most() {
    let ocsp = trusting("inter");
    let chain = chain(&["leaf"]);
    let asked = |now| ocsp.questions(&chain, now).map(|questions| questions.len());
    let question = &ocsp.questions(&chain, made()).unwrap()[0];
    ocsp.settle(question, Ok(&file("undated.answer")), made()).unwrap();
    assert_eq!(asked(made()), Ok(1), "it is as of now");
    ocsp.settle(question, Ok(&file("good.answer")), made()).unwrap();
    assert_eq!(asked(made() + 59.minutes()), Ok(0));
    assert_eq!(asked(made() + 61.minutes()), Ok(1));
    ocsp.settle(question, Ok(&file("revoked.answer")), made()).unwrap_err();
    assert!(matches!(asked(made()), Err(OcspError::Revoked { .. })));
}

#[test]
fn lists_decide_where_a_responder_does_not() {
    let fixture = |name: &str| StoreFile {
        path: [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect(),
        password: PasswordSource::None,
    };
    let trusted = fixture("ca.pem").trusted().unwrap();
    let lists = fixture("ca.crl").revocations().unwrap();
    let now: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
    let ocsp = Ocsp::new(&trusted, &lists).unwrap();
    for (name, is_good) in [("client.pem", true), ("revoked.pem", false), ("foreign.pem", false)] {
        let chain = fixture(name).trusted().unwrap();
        assert_eq!(ocsp.is_good_by_lists(&chain, Side::Client, now), is_good, "{name}");
        let nobody = Ocsp::new(&trusted, &[]).unwrap();
        assert!(!nobody.is_good_by_lists(&chain, Side::Client, now), "{name}");
    }
}

#[test]
fn an_answer_that_a_server_sends_along_is_taken() {
    let ocsp = trusting("root");
    let [leaf, inter] = ["leaf", "inter"].map(certificate);
    let rest = [inter];
    let seconds = u64::try_from(made().as_second()).unwrap();
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let stapled = |name: &str| ocsp.stapled(&leaf, &rest, &file(name), now);
    assert_eq!(stapled("usurped.answer"), Ok(()));
    let chain = chain(&["leaf", "inter"]);
    assert_eq!(ocsp.questions(&chain, made()).unwrap().len(), 2, "nobody believes it");
    assert_eq!(stapled("good.answer"), Ok(()));
    assert_eq!(ocsp.questions(&chain, made()).unwrap().len(), 1, "the other one is open");
    assert_eq!(stapled("revoked.answer"), Err(CertificateError::Revoked.into()));
}
