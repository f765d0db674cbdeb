//! Backups of directories that the original wrote.

use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::path::Path;

use tempfile::TempDir;
use zebu_proto::Zxid;

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/zookeeper-3.8.0");

/// A data directory and a directory for backups.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new(files: &[&str]) -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.version_dir()).unwrap();
        for file in files {
            place.add(file);
        }
        place
    }

    fn version_dir(&self) -> PathBuf {
        self.dir.path().join("data/version-2")
    }

    /// Adds a file of the fixtures.
    fn add(&self, file: &str) {
        fs::copy(format!("{FIXTURES}/basic/version-2/{file}"), self.version_dir().join(file))
            .unwrap();
    }

    fn add_from(&self, variant: &str, name: &str) {
        let from = format!("{FIXTURES}/{variant}");
        fs::copy(from, self.version_dir().join(name)).unwrap();
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.version_dir().join(file)).unwrap();
    }

    fn repository(&self) -> Repository {
        Repository::create(&self.dir.path().join("backup")).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path().join("backup/files"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn wish(now_ms: i64) -> Wish {
        Wish { source: "directory /data".to_owned(), now_ms, anew: false, horizon_ms: None }
    }

    fn take(&self, wish: &Wish) -> Result<Made> {
        let source = Directory::open(Arc::new(OsVfs), &self.dir.path().join("data"), None)?;
        take(&source, &self.repository(), wish)
    }

    fn verify(&self) -> Verdict {
        verify(&Stored::open(self.repository(), None).unwrap())
    }
}

const ALL: [&str; 4] = ["snapshot.0", "log.1", "snapshot.3c", "log.3d"];

fn refusal(made: Result<Made>) -> String {
    format!("{:#}", made.unwrap_err())
}

#[test]
fn a_log_is_copied_up_to_its_last_record() {
    let place = Place::new(&ALL);
    let made = place.take(&Place::wish(1000)).unwrap();
    assert_eq!(made.manifest.number, 1);
    // The expected ends of data and times are those of the fixtures' decodings.
    let logs: Vec<_> = (made.manifest.logs.iter())
        .map(|log| (log.first.0, log.last.0, log.records, log.bytes, log.first_ms, log.last_ms))
        .collect();
    assert_eq!(
        logs,
        [
            (1, 0x3c, 60, 11_197, 1_795_245_615_987, 1_795_245_616_162),
            (0x3d, 0x48, 12, 1212, 1_795_245_619_124, 1_795_245_619_156),
        ]
    );
    let znodes: Vec<_> =
        made.manifest.snapshots.iter().map(|file| (file.zxid.0, file.znodes)).collect();
    assert_eq!(znodes, [(0, 4), (0x3c, 50)]);
    // The copy has the original's bytes, without the preallocated rest.
    let log = &made.manifest.logs[1];
    let copy = fs::read(place.repository().file_path("log.3d", &log.sha)).unwrap();
    let whole = fs::read(place.version_dir().join("log.3d")).unwrap();
    assert_eq!(copy, whole[..1212]);
    assert_eq!(
        place.verify(),
        Verdict { files: 4, bytes: made.manifest.bytes(), ..Verdict::default() }
    );
}

#[test]
fn the_next_backup_copies_what_is_new() {
    let place = Place::new(&["snapshot.0", "log.1"]);
    place.add_from("torn/partial-middle-then-more/log.3d", "log.3d");
    // The same log when it had five records.
    let log = place.version_dir().join("log.3d");
    let mut file = OpenOptions::new().write(true).open(&log).unwrap();
    file.seek(SeekFrom::Start(473)).unwrap();
    file.set_len(473).unwrap();
    file.set_len(8208).unwrap();
    drop(file);
    let made = place.take(&Place::wish(1000)).unwrap();
    assert_eq!((made.manifest.last(), made.copied.len()), (Zxid(0x41), 3));
    assert_eq!(made.manifest.logs[1].bytes, 473);

    place.add("log.3d");
    place.add("snapshot.3c");
    let made = place.take(&Place::wish(2000)).unwrap();
    assert_eq!(made.copied, ["snapshot.3c", "log.3d"]);
    assert_eq!(made.manifest.last(), Zxid(0x48));

    // The server purges a log without new transactions.
    place.remove("log.1");
    place.remove("snapshot.0");
    let made = place.take(&Place::wish(3000)).unwrap();
    assert_eq!(made.copied, Vec::<String>::new());
    assert_eq!(made.manifest.logs.len(), 2, "what was purged stays in the backup");
    assert_eq!(place.verify().faults, Vec::<String>::new());
    assert_eq!(place.verify().files, 4);
}

#[test]
fn another_history_is_refused_and_may_begin_anew() {
    let place = Place::new(&ALL);
    place.take(&Place::wish(1000)).unwrap();
    let before = place.files();

    // The source is older than the backup.
    place.remove("log.3d");
    let refused = refusal(place.take(&Place::wish(2000)));
    assert!(
        refused.contains("it ends with transaction 0x3c, and the backup ends with 0x48"),
        "{refused}"
    );

    // The log lacks records in the middle, so it is another log.
    place.add_from("torn/missing-middle-gap/log.3d", "log.3d");
    let refused = refusal(place.take(&Place::wish(2000)));
    assert!(refused.contains("log.3d has other transactions than its copy"), "{refused}");
    assert_eq!(place.files(), before);
    assert_eq!(place.repository().manifests().unwrap(), [1]);

    let made = place.take(&Wish { anew: true, ..Place::wish(2000) }).unwrap();
    assert_eq!(made.manifest.number, 2);
    let first = Stored::open(place.repository(), Some(1)).unwrap();
    assert_eq!(verify(&first).faults, Vec::<String>::new(), "the old history stays");
}

#[test]
fn damage_in_the_source_gets_into_no_backup() {
    let place = Place::new(&ALL[..3]);
    place.add_from("torn/crc-corrupt-middle/log.3d", "log.3d");
    let refused = refusal(place.take(&Place::wish(1000)));
    assert!(refused.contains("log.3d: damaged at offset"), "{refused}");
    assert_eq!(place.repository().manifests().unwrap(), Vec::<u64>::new());

    // A log of a running server may have a torn end.
    place.add_from("torn/torn-mid-record-nopad/log.3d", "log.3d");
    assert_eq!(place.take(&Place::wish(1000)).unwrap().manifest.last(), Zxid(0x47));

    // An incomplete snapshot is being written. A snapshot with a flipped bit is damaged.
    let place = Place::new(&["snapshot.0", "log.1", "log.3d"]);
    place.add_from("bad-snapshots/snap-truncated.snapshot.3c", "snapshot.3c");
    let made = place.take(&Place::wish(1000)).unwrap();
    assert_eq!((made.manifest.snapshots.len(), made.left_out.len()), (1, 0));
    place.add_from("bad-snapshots/snap-bitflip.snapshot.3c", "snapshot.3c");
    let made = place.take(&Place::wish(2000)).unwrap();
    assert_eq!((made.manifest.snapshots.len(), made.left_out.len()), (1, 1));
    assert!(made.left_out[0].contains("snapshot.3c"), "{:?}", made.left_out);
}

#[test]
fn verification_finds_every_changed_byte_and_missing_file() {
    let place = Place::new(&ALL);
    place.take(&Place::wish(1000)).unwrap();
    for name in place.files() {
        let path = place.dir.path().join("backup/files").join(&name);
        let whole = fs::read(&path).unwrap();
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let faults = place.verify().faults;
            assert!(faults.len() == 1 && faults[0].contains(&name), "{name} {at}: {faults:?}");
        }
        fs::remove_file(&path).unwrap();
        let faults = place.verify().faults;
        assert!(faults.len() == 1 && faults[0].contains(&name), "{name}: {faults:?}");
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(place.verify().faults, Vec::<String>::new());
    // A manifest that contradicts its files.
    let mut stored = Stored::open(place.repository(), None).unwrap();
    stored.manifest.logs[0].chain ^= 1;
    stored.manifest.snapshots[1].znodes += 1;
    assert_eq!(verify(&stored).faults.len(), 2);
    let damaged = stored.repository.manifest_path(1);
    fs::write(&damaged, "{}\n").unwrap();
    let error = format!("{:#}", Stored::open(place.repository(), None).unwrap_err());
    assert!(error.contains("damaged manifest"), "{error}");
}

#[test]
fn old_backups_go_with_the_files_that_no_other_needs() {
    let place = Place::new(&["snapshot.0", "log.1"]);
    place.take(&Place::wish(1000)).unwrap();
    place.add("snapshot.3c");
    place.add("log.3d");
    // Points since then: the last transaction of log.1 is older.
    let horizon_ms = Some(1_795_245_617_000);
    let wish = Wish { horizon_ms, ..Place::wish(2000) };
    place.take(&wish).unwrap();
    assert_eq!(prune(&place.repository(), 1500, 2).unwrap(), (0, 0), "the newest two stay");
    place.take(&Place::wish(3000)).unwrap();
    assert_eq!(prune(&place.repository(), 1000, 2).unwrap(), (0, 0), "none is older");
    assert_eq!(prune(&place.repository(), 1500, 2).unwrap().0, 1);
    assert_eq!(place.repository().manifests().unwrap(), [2, 3]);
    for number in [2, 3] {
        let stored = Stored::open(place.repository(), Some(number)).unwrap();
        assert_eq!(verify(&stored).faults, Vec::<String>::new());
    }
    // With a new history, no file of the old one is needed.
    place.take(&Wish { anew: true, ..Place::wish(4000) }).unwrap();
    assert_eq!(prune(&place.repository(), 3500, 1).unwrap().0, 2);
    assert_eq!(place.verify().faults, Vec::<String>::new());
    assert_eq!(place.files().len(), 4);
}

#[test]
fn the_age_of_the_newest_backup_is_for_monitoring() {
    let place = Place::new(&ALL);
    place.take(&Place::wish(1_000_000)).unwrap();
    let asked = |max: &str, metrics| {
        let max = Some(parse_duration(max).unwrap());
        let args = AgeArgs { backup: place.dir.path().join("backup"), max, metrics };
        let mut out = Vec::new();
        let is_well = age(&args, 1_000_000 + 3_600_000, &mut out).unwrap();
        (is_well, String::from_utf8(out).unwrap())
    };
    let (is_well, text) = asked("1h", false);
    assert!(
        is_well && text.starts_with("backup 1 made 1970-01-01T00:16:40.000Z, 1h ago: "),
        "{text}"
    );
    assert!(text.contains("from the first transaction to 0x48"), "{text}");
    assert!(!asked("59m", false).0);
    let (_, text) = asked("1h", true);
    assert!(text.contains("\nzebu_backup_age_seconds 3600\n"), "{text}");
    // A backup from tomorrow would hide for a day that no further backup is made.
    let args = AgeArgs {
        backup: place.dir.path().join("backup"),
        max: Some(parse_duration("1h").unwrap()),
        metrics: false,
    };
    assert!(age(&args, 1_000_000 - 60_000, &mut Vec::new()).unwrap());
    assert!(!age(&args, 1_000_000 - 3_600_000, &mut Vec::new()).unwrap());
    parse_duration("soon").unwrap_err();
    parse_duration("-1h").unwrap_err();
    let nothing = AgeArgs { backup: Path::new("/nowhere").to_owned(), max: None, metrics: false };
    age(&nothing, 0, &mut Vec::new()).unwrap_err();
}

/// A key pair from age-keygen, and a text that age has encrypted with it.
const PUBLIC: &str = "age1d8xy5x0p6m5fps57pule94hswuaftc6wvzdlcxg54mcl283mtd2qh2rztt";
const SECRET: &str = "AGE-SECRET-KEY-1RAU8Q8932SESUYXNPGZQMAUA4F8XLH44PGDVL98DQTAT8VMC7PKQSRHWAP";
const BY_AGE: &str = "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBlMTQrQVlYU3I5ZS84Vkhud05zbW0xbWdQTDRqaDVFMEpHZFpERE9GNkNNCmFqZlZUZXdHWE1HeStlK3c2MndkL0V2RnE3b3o2S2UxUGJkSExzUDFmU0EKLS0tIEJEemRNZFRyYllLMG5aRU5RSXlNcXFYbTRPMWtVb1NsUnpMYXIvZzlsY2sKLHttuPUU2dcA2vb3x0oUVDjipzM0eVSuNNPL2h3SucbO4Pyt3yM9nuhs1/jaMQ==";
/// Another key from age-keygen.
const OTHER: &str = "AGE-SECRET-KEY-1E28N5H487JFDDKH270L6XWLUZHS4R353YSLEHUFPA9930AXSLA4S4XMQFZ";

#[test]
fn an_encrypted_backup_is_made_without_a_secret_and_read_with_the_key_alone() {
    let place = Place::new(&["snapshot.0", "log.1"]);
    let write = |name: &str, text: &str| {
        let path = place.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let public = write("public", &format!("# the operator's\n{PUBLIC}\n"));
    let secret = write("secret", &format!("# created: today\n{SECRET}\n"));
    let other = write("other", OTHER);
    let mut repository = place.repository();
    repository.encrypt_to(&public).unwrap();
    let source = Directory::open(Arc::new(OsVfs), &place.dir.path().join("data"), None).unwrap();
    let made = take(&source, &repository, &Place::wish(1000)).unwrap();
    assert_eq!(made.copied, ["snapshot.0", "log.1"]);
    for file in place.files() {
        let bytes = fs::read(place.dir.path().join("backup/files").join(file)).unwrap();
        assert!(bytes.starts_with(b"age-encryption.org/v1\n"));
        assert!(!bytes.windows(4).any(|part| part == b"ZKLG" || part == b"ZKSN"));
    }
    // The next backup knows the recipients, and copies only new files.
    place.add("log.3d");
    let next = place.take(&Place::wish(2000)).unwrap();
    assert_eq!(next.copied, ["log.3d"]);

    let open = |key: Option<&Path>| {
        let mut repository = place.repository();
        repository.unlock(key).map(|()| repository)
    };
    let stored = Stored::open(open(Some(&secret)).unwrap(), None).unwrap();
    let bytes = next.manifest.bytes();
    assert_eq!(verify(&stored), Verdict { files: 3, bytes, ..Verdict::default() });
    let said = open(None).unwrap_err().to_string();
    assert!(said.contains("is encrypted\nhint: --identity"), "{said}");
    let said = open(Some(&other)).unwrap_err().to_string();
    assert!(said.contains("other opens this backup") && !said.contains('\n'), "{said}");
    let said = open(Some(&public)).unwrap_err().to_string();
    assert!(said.contains("public: line 2: no secret key of age"), "{said}");
    let wrong = write("wrong", "hunter2");
    let said = place.repository().encrypt_to(&wrong).unwrap_err().to_string();
    assert!(said.contains("line 1: no public key") && !said.contains("hunter2"), "{said}");

    // A damaged file, or a file in plain text.
    let log = place.files().into_iter().find(|name| name.starts_with("log.3d")).unwrap();
    let log = place.dir.path().join("backup/files").join(log);
    let mut bytes = fs::read(&log).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&log, bytes).unwrap();
    assert_eq!(verify(&stored).faults.len(), 1);
    fs::copy(place.version_dir().join("log.3d"), &log).unwrap();
    assert_eq!(verify(&stored).faults.len(), 1);
}

#[test]
fn the_first_backup_decides_whether_and_for_whom_it_is_encrypted() {
    let place = Place::new(&["snapshot.0", "log.1"]);
    let public = place.dir.path().join("public");
    fs::write(&public, PUBLIC).unwrap();
    place.take(&Place::wish(1000)).unwrap();
    let said = place.repository().encrypt_to(&public).unwrap_err().to_string();
    assert!(said.contains("the backups there are not encrypted"), "{said}");
    let said = place.repository().unlock(Some(&public)).unwrap_err().to_string();
    assert!(said.contains("no secret key"), "{said}");
}

#[test]
fn what_age_itself_has_encrypted_is_read() {
    use base64::Engine as _;
    let place = Place::new(&[]);
    let (public, secret) = (place.dir.path().join("public"), place.dir.path().join("secret"));
    fs::write(&public, PUBLIC).unwrap();
    fs::write(&secret, SECRET).unwrap();
    let mut repository = place.repository();
    repository.encrypt_to(&public).unwrap();
    repository.unlock(Some(&secret)).unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(BY_AGE).unwrap();
    fs::write(place.dir.path().join("backup/files/log.1.0"), bytes).unwrap();
    let mut text = String::new();
    let mut file = repository.file("log.1", &"0".to_owned()).unwrap();
    io::Read::read_to_string(&mut file, &mut text).unwrap();
    assert_eq!(text, "written by age");
}
