//! Configuration: properties files, `zoo.cfg` with its related files and variables, words of a
//! command line, and four-letter words.

use std::cell::Cell;
use std::io;
use std::path::Path;

use zebu_server::config::{
    self, ConfigError, Loaded, Origin, Sources, Start, VARIABLES, jvm_flags,
};
use zebu_server::four_letter::{Effect, Received, Whitelist, Word};
use zebu_server::properties::{self, Properties, PropertiesError};

/// A properties file: every entry is the same after it is written again.
pub(crate) fn properties(bytes: &[u8]) {
    let lines = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u32 + 1;
    let found = match properties::parse(bytes) {
        Ok(found) => found,
        Err(fault) => {
            assert!(fault.line() <= lines);
            assert_eq!(matches!(fault, PropertiesError::Escape { .. }), fault.line() > 0);
            return;
        }
    };
    let Properties { entries, replaced } = &found;
    for entry in entries.iter().chain(replaced) {
        assert!((1..=lines).contains(&entry.line));
    }
    for entry in replaced {
        let last = entries.iter().find(|other| other.key == entry.key).expect("a later one won");
        assert!(entry.line < last.line);
    }
    let mut text = String::new();
    for entry in entries {
        text.push_str(&escaped(&entry.key));
        text.push('=');
        text.push_str(&escaped(&entry.value));
        text.push('\n');
    }
    let again = properties::parse(text.as_bytes()).expect("what was written can be read");
    assert_eq!(again.replaced, []);
    let pairs = |found: &Properties| {
        let pairs = found.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone()));
        pairs.collect::<Vec<_>>()
    };
    assert_eq!(pairs(&again), pairs(&found));
}

/// Every character as its UTF-16 units.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// `zoo.cfg`, then the dynamic file, `myid`, the two variables with JVM flags, `-D` and `--set`
/// words, each after a line of `%`. The configuration is refused with reasons, or accepted. The
/// effective settings of an accepted one form a file that is accepted, too, and means the same.
pub(crate) fn zoo_cfg(bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == b'%');
    let main = parts.next().unwrap_or_default();
    let dynamic = parts.next();
    let myid = parts.next();
    let text = |part: Option<&[u8]>| part.map(|part| String::from_utf8_lossy(part).into_owned());
    let variables = VARIABLES.into_iter().filter_map(|name| Some((name, text(parts.next())?)));
    let variables: Vec<(&'static str, String)> = variables.collect();
    let words = |part: Option<&[u8]>| -> Vec<String> {
        let lines = text(part).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    };
    let defines = words(parts.next());
    let sets = words(parts.next());
    let reads = Cell::new(0);
    let read = |path: &Path| -> io::Result<Vec<u8>> {
        reads.set(reads.get() + 1);
        let part = match path.file_name().and_then(|name| name.to_str()) {
            _ if path == Path::new("zoo.cfg") => Some(main),
            Some("myid") => myid,
            _ => dynamic,
        };
        part.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::NotFound.into())
    };
    let start = Start::File("zoo.cfg".into());
    let result = config::load(&Sources { start, variables, defines, sets, read: &read });
    assert!(reads.get() <= 3, "each file is read once");
    check_loaded(&result);
    let Ok(loaded) = result else { return };
    let settings = &loaded.effective.settings;
    // A masked value is lost; the dynamic file and the lines of members belong to another file.
    let plain = |key: &str| !key.starts_with("server.") && key != "dynamicConfigFile";
    let lost =
        |setting: &config::EffectiveSetting| setting.value == config::MASK || !plain(&setting.key);
    if settings.iter().any(lost) {
        return;
    }
    let mut file = String::new();
    for setting in settings {
        file.push_str(&format!("{}={}\n", escaped(&setting.key), escaped(&setting.value)));
    }
    let read = |path: &Path| -> io::Result<Vec<u8>> {
        if path == Path::new("zoo.cfg") {
            return Ok(file.clone().into_bytes());
        }
        Err(io::ErrorKind::NotFound.into())
    };
    let again = config::load(&Sources {
        start: Start::File("zoo.cfg".into()),
        variables: vec![],
        defines: vec![],
        sets: vec![],
        read: &read,
    });
    let again = again.unwrap_or_else(|error| panic!("{file}: {error}"));
    let values = |loaded: &Loaded| {
        let of = |setting: &config::EffectiveSetting| (setting.key.clone(), setting.value.clone());
        loaded.effective.settings.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(values(&again), values(&loaded));
}

fn check_loaded(result: &Result<Loaded, ConfigError>) {
    match result {
        Err(error) => {
            assert!(!error.problems.is_empty());
            assert!(error.problems.iter().all(|problem| !problem.text.is_empty()));
            assert!(!error.to_string().is_empty());
        }
        Ok(loaded) => {
            assert!(loaded.notes.iter().all(|note| !note.text.is_empty()));
            let given = loaded.effective.settings.iter();
            for setting in given.filter(|setting| setting.origin != Origin::Default) {
                assert_eq!(setting.computed_from, None, "{}", setting.key);
            }
        }
    }
}

/// Words of a JVM's command line, and intervals, one a line.
pub(crate) fn flags(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let flags = jvm_flags::parse(&text);
    let words = flags.defines.len() + flags.ignored.len() + flags.stray.len();
    assert!(words <= text.chars().count());
    assert!(flags.stray.iter().all(|word| !word.starts_with('-')));
    for line in text.lines() {
        match config::interval(line) {
            Ok(Some(interval)) if interval.as_millis() <= i64::MAX as u128 => {
                let again = config::interval(&format!("{}ms", interval.as_millis()));
                assert_eq!(again, Ok(Some(interval)));
            }
            Ok(_) => {}
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
}

/// First bytes of a connection, then lines of a whitelist.
pub(crate) fn four_letter(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first_chunk::<4>() else { return };
    let text = String::from_utf8_lossy(rest);
    let list: Vec<String> = text.lines().map(str::to_owned).collect();
    let whitelist = Whitelist::new(&list, false);
    assert!(whitelist.allows(Word::Srvr));
    for word in Word::ALL {
        let named = list.iter().any(|entry| entry == "*" || entry == word.name());
        assert_eq!(whitelist.allows(word), named || word == Word::Srvr);
    }
    assert!(whitelist.unknown().iter().all(|name| list.contains(name)));
    match Received::from_bytes(*first) {
        Some(Received::Word(word)) => {
            assert_eq!(word.name().as_bytes(), first);
            let changes = matches!(word, Word::Crst | Word::Srst | Word::Stmk);
            assert_eq!(word.effect(7) != Effect::None, changes);
        }
        Some(Received::TelnetInterrupt) => assert_eq!(first, b"\xff\xf4\xff\xfd"),
        // The length of a frame: no word equals the length of an accepted frame.
        None => assert!(Word::ALL.iter().all(|word| word.name().as_bytes() != first)),
    }
}
