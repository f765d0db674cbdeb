//! Tests without a key distribution centre: the library itself, key tables, and invalid tokens.
//!
//! `tests/fixtures/zookeeper.keytab` was made by MIT's `kadmin.local`, with `ktadd` for
//! `zookeeper/localhost@ZEBU.TEST`. Contexts that are established are tested against a centre:
//! `tests/interop/tests/kerberos.rs`.

use std::path::{Path, PathBuf};

use super::*;

fn key_tab() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/zookeeper.keytab")
}

/// The library, where this machine has it.
fn gss() -> Option<Gss> {
    Gss::load().inspect_err(|error| println!("{error}: nothing is tested")).ok()
}

fn said<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_missing_library_is_named_with_its_package() {
    let error = said(sys::load(["libnothing-of-zebu.so.2", "libkrb5.so.3"]).map(|_| ()));
    let begin = "Kerberos needs the library libnothing-of-zebu.so.2, which cannot be loaded (libnothing-of-zebu.so.2: ";
    assert!(error.starts_with(begin), "{error}");
    assert!(error.ends_with("on Debian, install the package libgssapi-krb5-2"), "{error}");
    assert!(!error.contains('\n'), "{error}");
    // A library of another kind has not the functions.
    let error = sys::load(["libc.so.6", "libc.so.6"]).map(|_| ());
    assert!(said(error).contains("gss_"));
}

#[test]
fn a_service_has_its_own_keys_only() {
    let Some(gss) = gss() else { return };
    let acceptor = gss.acceptor("zookeeper/localhost@ZEBU.TEST", Some(&key_tab())).unwrap();
    assert_eq!(acceptor.name(), "zookeeper/localhost@ZEBU.TEST");
    let other = said(gss.acceptor("zookeeper/other@ZEBU.TEST", Some(&key_tab())));
    assert_eq!(other, "No key table entry found for zookeeper/other@ZEBU.TEST");
    let none = said(gss.acceptor("zookeeper/localhost@ZEBU.TEST", Some(Path::new("/no/such"))));
    assert_eq!(none, "Key table file '/no/such' not found");
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let text = said(gss.acceptor("zookeeper/localhost@ZEBU.TEST", Some(&text)));
    assert_eq!(text, "Unsupported key table format version number");
    let zero = said(gss.acceptor("zookeeper/localhost\0@ZEBU.TEST", None));
    assert_eq!(zero, "\"zookeeper/localhost\\0@ZEBU.TEST\" contains a zero byte");
    let name = "x/y@ZEBU.TEST".to_owned();
    assert_eq!(gss.full_name(&name).unwrap(), name);
}

#[test]
fn a_token_that_is_none_ends_its_context_alone() {
    let Some(gss) = gss() else { return };
    let acceptor = gss.acceptor("zookeeper/localhost@ZEBU.TEST", Some(&key_tab())).unwrap();
    // A token of Kerberos begins so; what follows is not a ticket.
    let begun = [
        0x60, 0x17, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2, 1, 0, 0x6e, 8, 0, 0, 0, 0,
        0, 0, 0, 0,
    ];
    // After this one the library would go on, without a token of its own. Fuzzing has found it.
    let mut other = begun;
    other[13..].fill(0);
    for token in [&b""[..], b"nonsense", &begun, &other, &[0x60], &[0; 70_000]] {
        let mut context = acceptor.begin();
        let error = said(context.step(token));
        assert!(!error.is_empty() && !error.contains('\n'), "{error:?}");
        assert_eq!(context.peer(), None);
        for result in [context.step(token).map(|_| ()), context.wrap(b"x").map(|_| ())] {
            result.unwrap_err();
        }
        context.unwrap(b"x").unwrap_err();
    }
}

#[test]
fn contexts_may_be_on_many_threads() {
    let Some(gss) = gss() else { return };
    let acceptor = gss.acceptor("zookeeper/localhost@ZEBU.TEST", Some(&key_tab())).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    acceptor.begin().step(b"nonsense").unwrap_err();
                }
            });
        }
    });
}

#[test]
fn a_client_without_credentials_is_told_what_is_missing() {
    let Some(gss) = gss() else { return };
    let target = Target::Principal("zookeeper/localhost@ZEBU.TEST".to_owned());
    let begin = |source| said(gss.initiator(source).begin(&target).unwrap().step(b""));
    let principal = || Some("amy@ZEBU.TEST".to_owned());
    let from = |key_tab: &Path| Source {
        principal: principal(),
        key_tab: Some(Some(key_tab.to_owned())),
        cache: None,
    };
    assert_eq!(begin(from(&key_tab())), "No key table entry found for amy@ZEBU.TEST");
    assert_eq!(begin(from(Path::new("/no/such"))), "Key table file '/no/such' not found");
    let cache = Some(Some("/no/such".into()));
    let none = begin(Source { principal: principal(), key_tab: None, cache: cache.clone() });
    assert!(none.contains("/no/such") || none.contains("No credentials cache"), "{none}");
    // With both, what is said is what is missing in the key table, which comes last.
    let both = begin(Source { cache, ..from(&key_tab()) });
    assert_eq!(both, "No key table entry found for amy@ZEBU.TEST");
}

/// A process may end while another of its threads is in the library, which would abort it: it takes
/// its locks apart first.
#[test]
fn a_process_ends_in_good_order_during_calls() {
    const CHILD: &str = "ZEBU_GSSAPI_TEST_ENDS";
    let Some(gss) = gss() else { return };
    if std::env::var_os(CHILD).is_some() {
        let (tell, told) = std::sync::mpsc::channel();
        for _ in 0..4 {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let begun = gss.initiator(Source::default());
                tell.send(()).unwrap();
                loop {
                    drop(begun.begin(&Target::Principal("x/y@ZEBU.TEST".to_owned())));
                    drop(gss.initiator(Source::default()));
                }
            });
        }
        for _ in 0..4 {
            told.recv().unwrap();
        }
        std::process::exit(7);
    }
    for _ in 0..20 {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::a_process_ends_in_good_order_during_calls", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{}: {said}", output.status);
    }
}
