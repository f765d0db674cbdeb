//! Snapshots that the original wrote.

use std::fs;
use std::path::Path;

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");

fn fixture(name: &str) -> PathBuf {
    Path::new(FIXTURES).join(name)
}

fn shown(args: &ShowArgs) -> (String, Result<(), Failure>) {
    let mut out = Vec::new();
    let done = show(args, &mut out);
    (String::from_utf8(out).unwrap(), done)
}

fn show_args(name: &str) -> ShowArgs {
    ShowArgs { data: false, json: false, file: fixture(name) }
}

const SNAPSHOT: &str = "zookeeper-3.9.5/basic/version-2/snapshot.48";

#[test]
fn znodes_are_shown_with_their_stats() {
    let (text, done) = shown(&show_args(SNAPSHOT));
    done.unwrap();
    assert!(
        text.starts_with("ZNode Details (count=57):\n----\n/\n  cZxid = 0x00000000000000\n"),
        "{text}"
    );
    assert!(text.contains("/fx/big\n"), "{text}");
    assert!(text.contains("  ephemeralOwner = 0xff0000dc46c32800\n"), "{text}");
    assert!(text.ends_with("0x100001a39800001, 2400000, 1\n----\nLast zxid: 0x48\n"), "{text}");
    let (text, done) = shown(&ShowArgs { data: true, ..show_args(SNAPSHOT) });
    done.unwrap();
    assert!(text.contains("  data = Zml4dHVyZSByb290\n"), "{text}");
}

#[test]
fn names_and_sizes_are_json() {
    let image = Image::open(&fixture(SNAPSHOT)).unwrap();
    let mut out = Vec::new();
    show::json(&image, 7, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let start = "[1,0,{\"progname\":\"SnapshotFormatter.java\",\"progver\":\"0.01\",\"timestamp\":7},\
                 [{\"name\":\"/\",\"asize\":0,\"dsize\":0,\"dev\":0,\"ino\":1001},";
    assert!(text.starts_with(start), "{text}");
    assert_eq!(text.matches('[').count(), text.matches(']').count());
    assert_eq!(text.matches("\"name\"").count(), 56);
}

#[test]
fn subtrees_are_summed() {
    let image = Image::open(&fixture(SNAPSHOT)).unwrap();
    let summary = |path: &str, depth| {
        let mut out = Vec::new();
        summary::print(&image, image.find(path).unwrap(), depth, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(summary("/q", 0), " /q\n   children: 3\n   data: 14\n\n");
    let text = summary("/fx", 1);
    assert!(text.contains("-- /fx/deep\n--   children: 3\n--   data: 3\n"), "{text}");
    assert!(!text.contains("---- "), "{text}");
    assert_eq!(image.find("/none"), None);
}

#[test]
fn two_snapshots_are_compared() {
    let args = compare::CompareArgs {
        left: fixture(SNAPSHOT),
        right: fixture("zookeeper-3.8.0/basic/version-2/snapshot.3c"),
        bytes: 2,
        nodes: 1,
        debug: false,
        interactive: true,
    };
    let mut out = Vec::new();
    let answers = "/eph\n99\n1\n/none\nx\n";
    let ended = compare::run(&args, &mut answers.as_bytes(), &mut out).unwrap_err();
    assert_eq!(ended.to_string(), "error: no answer");
    let text = String::from_utf8(out).unwrap();
    for line in [
        "Node /eph/e3 found only in left tree. Descendant size: 9. Descendant count: 0",
        "Filtered node /eph/e1 of left size 9, right size 9",
        "Depth must be in range [0, 6]",
        "Node /eph found in both trees. Delta: -9 bytes, -1 descendants",
        "Path /none is neither found in left tree nor right tree.",
        "Input x is not valid. Depth must be in range [0, 6]. Path must be an absolute path which starts with '/'.",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
}

#[test]
fn a_damaged_snapshot_is_shown_and_called_damaged() {
    let (text, done) = shown(&show_args("zookeeper-3.8.0/bad-snapshots/snap-bitflip.snapshot.3c"));
    assert!(done.unwrap_err().to_string().contains("checksum mismatch"));
    assert!(text.contains("/fx/big\n"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.1");
    fs::write(&file, "this is something else").unwrap();
    let (text, done) = shown(&ShowArgs { data: false, json: false, file });
    assert_eq!(text, "");
    assert!(done.unwrap_err().to_string().ends_with("this is not a snapshot"));
}
