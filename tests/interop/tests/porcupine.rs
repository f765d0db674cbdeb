//! Porcupine, an independent checker of linearizability, and this project's checker agree about the
//! same histories.
//!
//! The histories are generated: clients send concurrent requests about one znode, and each
//! operation takes effect at a moment between its start and its end. Then most histories get one
//! change, which makes them invalid or not.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zebu_interop::deps;
use zebu_interop::linear::{self, Operation, Verdict};
use zebu_interop::run::succeed;
use zebu_interop::znode::{self, ANY, Answer, Ask, Asked, State};
use zebu_testkit::Random;

const HISTORIES: usize = 600;

/// A server's answer, and the state after it.
fn serve(state: &State, ask: &Ask) -> (State, Answer) {
    let wrong = |asked: i32, at: i32| asked != ANY && asked != at;
    match (ask, state) {
        (Ask::Create(value), None) => (Some((0, value.clone())), Answer::Done),
        (Ask::Create(_), Some(_)) => (state.clone(), Answer::Exists),
        (_, None) => (None, Answer::NoNode),
        (Ask::Read, Some((at, value))) => (state.clone(), Answer::Is(*at, value.clone())),
        (Ask::Set(asked, _) | Ask::Delete(asked), Some((at, _))) if wrong(*asked, *at) => {
            (state.clone(), Answer::BadVersion)
        }
        (Ask::Set(_, value), Some((at, _))) => {
            (Some((at + 1, value.clone())), Answer::Version(at + 1))
        }
        (Ask::Delete(_), Some(_)) => (None, Answer::Done),
    }
}

/// An operation, with its times in milliseconds.
#[derive(Clone)]
struct Made {
    began: u64,
    ended: Option<u64>,
    call: Asked,
}

/// A history that is linearizable.
fn good(random: &mut Random) -> Vec<Made> {
    let clients = 2 + random.index(3);
    let mut asked = Vec::new();
    for _ in 0..clients {
        let mut now = random.next() % 8;
        for _ in 0..3 + random.index(5) {
            let (began, happens) = (now, now + random.next() % 10);
            let ended = happens + random.next() % 10;
            // Some operations are never executed, as if their requests were lost.
            let lost = random.chance(8);
            let known = !lost && random.chance(90);
            asked.push((happens, random.next(), began, known.then_some(ended), lost));
            now = ended + 1 + random.next() % 4;
        }
    }
    asked.sort_unstable();
    let mut state: State = None;
    let mut history = Vec::new();
    for (count, (_, _, began, ended, lost)) in asked.into_iter().enumerate() {
        let version = match &state {
            Some((at, _)) if random.chance(40) => at - i32::from(random.chance(30)),
            _ => ANY,
        };
        let version = version.max(ANY);
        let value = format!("value-{count}");
        let ask = match random.index(10) {
            0..=1 => Ask::Create(value),
            2..=5 => Ask::Set(version, value),
            6 => Ask::Delete(version),
            _ => Ask::Read,
        };
        // A read without an answer carries no information.
        if ask == Ask::Read && ended.is_none() {
            continue;
        }
        let (after, answer) = serve(&state, &ask);
        if !lost {
            state = after;
        }
        let answer = if ended.is_some() { answer } else { Answer::Unknown };
        history.push(Made { began, ended, call: Asked(ask, answer) });
    }
    history
}

/// Changes one answer, or one time of one operation.
fn change(history: &mut [Made], random: &mut Random) {
    let known: Vec<usize> = (0..history.len()).filter(|at| history[*at].ended.is_some()).collect();
    if known.is_empty() {
        return;
    }
    let (at, other) = (*random.pick(&known), *random.pick(&known));
    let later = random.next() % 40;
    let others = history[other].call.1.clone();
    let it = &mut history[at];
    match (random.index(4), &mut it.call.1) {
        (0, Answer::Is(version, _) | Answer::Version(version)) => *version += 1,
        (1, answer @ (Answer::Is(..) | Answer::NoNode)) if matches!(others, Answer::Is(..)) => {
            *answer = others;
        }
        (2, answer @ Answer::BadVersion) => *answer = Answer::NoNode,
        _ => {
            let length = it.ended.map_or(0, |ended| ended - it.began);
            it.began = later;
            it.ended = Some(later + length);
        }
    }
}

fn to_json(history: &[Made]) -> Value {
    let operation = |it: &Made| {
        let (ask, version, value) = match &it.call.0 {
            Ask::Create(value) => ("create", ANY, value.as_str()),
            Ask::Set(version, value) => ("set", *version, value.as_str()),
            Ask::Delete(version) => ("delete", *version, ""),
            Ask::Read => ("read", ANY, ""),
        };
        let (answer, seen_version, seen_value) = match &it.call.1 {
            Answer::Is(version, value) => ("is", *version, value.as_str()),
            Answer::Version(version) => ("version", *version, ""),
            Answer::Done => ("done", 0, ""),
            Answer::NoNode => ("nonode", 0, ""),
            Answer::Exists => ("exists", 0, ""),
            Answer::BadVersion => ("badversion", 0, ""),
            Answer::Unknown => ("unknown", 0, ""),
        };
        json!({
            "began": it.began, "ended": it.ended, "ask": ask, "version": version, "value": value,
            "answer": answer, "seen_version": seen_version, "seen_value": seen_value,
        })
    };
    history.iter().map(operation).collect()
}

fn to_operations(history: &[Made]) -> Vec<Operation<Asked>> {
    let zero = Instant::now();
    let at = |ms: u64| zero + Duration::from_millis(ms);
    let operation = |it: &Made| Operation {
        began: at(it.began),
        ended: it.ended.map(at),
        call: it.call.clone(),
    };
    history.iter().map(operation).collect()
}

#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn porcupine_and_our_search_say_the_same() {
    let mut random = Random::new(17);
    let mut histories = Vec::new();
    for number in 0..HISTORIES {
        let mut history = good(&mut random);
        for _ in 0..number % 4 {
            change(&mut history, &mut random);
        }
        histories.push(history);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("histories");
    let lines: String = histories.iter().map(|it| format!("{}\n", to_json(it))).collect();
    fs::write(&file, lines).unwrap();
    let mut porcupine = Command::new(deps::installed("porcupine").join("porcupine"));
    let said = succeed(porcupine.arg(&file), Duration::from_secs(600)).unwrap();
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said.len(), histories.len());

    let (mut sound, mut broken) = (0, 0);
    for (number, (history, said)) in histories.iter().zip(said).enumerate() {
        let operations = to_operations(history);
        let verdict = linear::decide(&None, &operations);
        let ours = match verdict {
            Verdict::Linearizable { .. } => "Ok",
            Verdict::Broken { .. } => "Illegal",
            Verdict::Undecided => "Unknown",
        };
        assert_eq!(ours, said, "history {number}: {}", to_json(history));
        // Also with the effects that reads show of writes without an answer, as in recorded
        // histories.
        assert_eq!(znode::check(&operations).is_ok(), said == "Ok", "history {number}");
        if number.is_multiple_of(4) {
            assert_eq!(said, "Ok", "history {number} was not changed: {}", to_json(history));
        }
        *(if said == "Ok" { &mut sound } else { &mut broken }) += 1;
    }
    assert!(sound > 150 && broken > 150, "{sound} sound, {broken} broken");
}
