//! A program that runs, is away, is slow or sends invalid answers, step by step.

use super::*;

const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const MS: Duration = Duration::from_millis(1);
const RULES: Rules = Rules {
    time_max: Duration::from_millis(2000),
    asked_max: 2,
    cache_time: Duration::from_secs(60),
};

/// The connection has taken all requests, and has ended.
fn ended(why: &str) -> Input {
    Input::Ended { why: why.to_owned(), unsent: 0 }
}

struct Case {
    outside: Outside,
    now: Duration,
    out: Vec<Output>,
}

impl Case {
    fn new(rules: Rules) -> Self {
        let outside = Outside::new("ldap", rules, [7; 32]);
        Self { outside, now: Duration::from_secs(100), out: Vec::new() }
    }

    fn up(rules: Rules) -> Self {
        let mut case = Self::new(rules);
        assert_eq!(case.ask(0, "nobody"), ["dial"]);
        case.step(Input::Connected);
        assert_eq!(case.answer(1, "refused"), ["0 Refused"]);
        case
    }

    fn step(&mut self, input: Input) -> Vec<String> {
        self.outside.step(self.now, input, &mut self.out);
        let shown = |output| match output {
            Output::Dial => "dial".to_owned(),
            Output::Close => "close".to_owned(),
            Output::Send(line) => {
                let line = line.expose();
                assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
                let value: serde_json::Value = serde_json::from_slice(line).unwrap();
                format!("send {}", value["id"])
            }
            Output::Judged(ticket, judged) => format!("{ticket} {judged:?}"),
            Output::Warn(text) => format!("warn {text}"),
            Output::Inform(text) => format!("inform {text}"),
        };
        std::mem::take(&mut self.out).into_iter().map(shown).collect()
    }

    fn ask(&mut self, ticket: u64, data: &str) -> Vec<String> {
        let data = Some(Secret::from(data));
        self.step(Input::Ask { ticket, peer: HOME, data })
    }

    fn line(&mut self, line: &str) -> Vec<String> {
        self.step(Input::Received(format!("{line}\n").into_bytes()))
    }

    fn answer(&mut self, id: u64, result: &str) -> Vec<String> {
        let ids = if result == "ok" { r#","ids":["amy"]"# } else { "" };
        self.line(&format!(r#"{{"version":1,"id":{id},"result":"{result}"{ids}}}"#))
    }

    fn after(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.step(Input::Tick)
    }
}

#[test]
fn a_question_is_a_line_of_json() {
    let mut case = Case::new(RULES);
    case.ask(5, "amy:\n\"secret");
    case.outside.step(case.now, Input::Connected, &mut case.out);
    assert!(!format!("{:?}", case.out).contains("YW15"), "what is sent cannot be printed");
    let [Output::Send(line)] = &case.out[..] else { panic!("{:?}", case.out) };
    // `echo -n ... | base64`
    let data = "YW15Ogoic2VjcmV0";
    let value: serde_json::Value = serde_json::from_slice(line.expose()).unwrap();
    assert_eq!(
        value,
        serde_json::json!({
            "version": 1, "id": 1, "scheme": "ldap", "address": "127.0.0.1", "data": data,
        })
    );
}

#[test]
fn the_program_is_dialled_for_the_first_question_and_then_kept() {
    let mut case = Case::new(RULES);
    assert_eq!(case.outside.due(), None);
    assert_eq!(case.ask(5, "a"), ["dial"]);
    assert_eq!(case.ask(6, "b"), Vec::<String>::new());
    assert_eq!(case.ask(7, "c"), Vec::<String>::new());
    assert_eq!(case.step(Input::Connected), ["send 1", "send 2"], "two at a time");
    assert_eq!(case.answer(2, "ok"), [r#"6 Ids(["amy"])"#, "send 3"]);
    assert_eq!(case.answer(1, "refused"), ["5 Refused"]);
    assert_eq!(case.answer(3, "unknown"), ["7 Unknown"]);
    assert_eq!(case.outside.due(), None);
}

#[test]
fn a_good_verdict_is_remembered_for_a_time_and_a_refusal_never() {
    let mut case = Case::up(RULES);
    assert_eq!(case.ask(1, "amy"), ["send 2"]);
    assert_eq!(case.answer(2, "ok"), [r#"1 Ids(["amy"])"#]);
    assert_eq!(case.ask(2, "amy"), [r#"2 Ids(["amy"])"#]);
    assert_eq!(case.ask(3, "amy2"), ["send 3"], "other data are another question");
    assert_eq!(case.answer(3, "refused"), ["3 Refused"]);
    assert_eq!(case.ask(4, "amy2"), ["send 4"]);
    case.answer(4, "refused");
    let other =
        Input::Ask { ticket: 5, peer: [10, 0, 0, 1].into(), data: Some(Secret::from("amy")) };
    assert_eq!(case.step(other), ["send 5"], "another address is another question");
    case.answer(5, "refused");
    let null = Input::Ask { ticket: 6, peer: HOME, data: None };
    assert_eq!(case.step(null), ["send 6"]);
    case.answer(6, "refused");
    case.now += RULES.cache_time;
    assert_eq!(case.ask(7, "amy"), ["send 7"]);
    // The program may shorten the time, and never lengthen it.
    case.line(r#"{"version":1,"id":7,"result":"ok","ids":["amy"],"cache_ms":0,"more":1}"#);
    assert_eq!(case.ask(8, "amy"), ["send 8"]);
    case.line(r#"{"version":1,"id":8,"result":"ok","ids":["amy"],"cache_ms":99999999}"#);
    case.now += RULES.cache_time;
    assert_eq!(case.ask(9, "amy"), ["send 9"]);
}

#[test]
fn whoever_asks_the_same_meanwhile_shares_the_verdict() {
    let mut case = Case::up(RULES);
    assert_eq!(case.ask(1, "amy"), ["send 2"]);
    assert_eq!(case.ask(2, "amy"), Vec::<String>::new());
    assert_eq!(case.answer(2, "refused"), ["1 Refused", "2 Refused"]);
}

#[test]
fn nobody_is_let_in_where_nobody_answers() {
    let mut case = Case::new(RULES);
    case.ask(1, "amy");
    let told = case.step(ended("no such file"));
    assert_eq!(told, ["warn the check of scheme ldap is not there: no such file"]);
    // It is dialled again, at growing intervals, until the client has waited long enough.
    let mut dials = 0;
    let verdict = loop {
        let due = case.outside.due().unwrap();
        let time = due - case.now;
        let told = case.after(time);
        if told.contains(&"dial".to_owned()) {
            dials += 1;
            case.step(ended("no such file"));
        }
        if let Some(verdict) = told.into_iter().find(|line| line.starts_with('1')) {
            break verdict;
        }
    };
    assert_eq!(verdict, "1 Unknown");
    assert!((5..10).contains(&dials), "{dials}");
    assert_eq!(case.outside.due(), None, "nobody waits, so nobody dials");
}

#[test]
fn a_restart_of_the_program_costs_nobody_anything() {
    let mut case = Case::up(RULES);
    assert_eq!(case.ask(1, "amy"), ["send 2"]);
    case.step(ended("gone"));
    assert_eq!(case.after(20 * MS), ["dial"]);
    assert_eq!(case.step(Input::Connected), ["send 2"]);
    let told = case.answer(2, "ok");
    assert_eq!(told, ["inform the check of scheme ldap answers again", r#"1 Ids(["amy"])"#]);
    // A question that ends the program each time is asked twice, no more.
    assert_eq!(case.ask(2, "poison"), ["send 3"]);
    case.step(ended("gone"));
    case.after(40 * MS);
    assert_eq!(case.step(Input::Connected), ["send 3"]);
    assert_eq!(case.step(ended("gone")), ["2 Unknown"]);
}

/// Bytes of the request with these data.
fn bytes(case: &Case, id: u64, data: &str) -> usize {
    let (scheme, address) = (&case.outside.scheme, HOME);
    Request { id, scheme, address, data: Some(data.as_bytes()) }.line().len()
}

#[test]
fn a_question_on_a_connection_just_closed_keeps_both_attempts() {
    let mut case = Case::up(RULES);
    // The program closes the connection, and the end is noticed when the first request is written.
    assert_eq!(case.ask(1, "amy"), ["send 2"]);
    let unsent = bytes(&case, 2, "amy");
    case.step(Input::Ended { why: "broken pipe".to_owned(), unsent });
    for pause in [20, 40] {
        let told = case.after(pause * MS);
        assert_eq!(told, ["dial"]);
        assert_eq!(case.step(Input::Connected), ["send 2"]);
        let told = case.step(ended("gone"));
        assert_eq!(told.contains(&"1 Unknown".to_owned()), pause == 40, "{told:?}");
    }
}

/// Of a request that the connection has taken in part, the program may have seen something.
#[test]
fn a_question_of_which_a_part_was_written_has_used_an_attempt() {
    let mut case = Case::up(RULES);
    assert_eq!(case.ask(1, "amy"), ["send 2"]);
    assert_eq!(case.ask(2, "bob"), ["send 3"]);
    let unsent = bytes(&case, 2, "amy") - 1 + bytes(&case, 3, "bob");
    case.step(Input::Ended { why: "broken pipe".to_owned(), unsent });
    assert_eq!(case.after(20 * MS), ["dial"]);
    assert_eq!(case.step(Input::Connected), ["send 2", "send 3"]);
    assert_eq!(case.step(ended("gone")), ["1 Unknown"]);
    // A request whose client no longer waits is counted as well.
    assert_eq!(case.after(40 * MS), ["dial"]);
    assert_eq!(case.step(Input::Connected), ["send 3"]);
    let unsent = 50 + bytes(&case, 3, "bob");
    case.outside.late.insert(9, 50);
    case.step(Input::Ended { why: "broken pipe".to_owned(), unsent });
    let told = case.after(80 * MS);
    assert_eq!(told, ["dial"]);
    assert_eq!(case.step(Input::Connected), ["send 3"]);
    assert_eq!(
        case.answer(3, "refused")[..],
        ["inform the check of scheme ldap answers again", "2 Refused"]
    );
}

#[test]
fn a_late_answer_is_for_nobody_and_counts_until_it_comes() {
    let mut case = Case::up(RULES);
    assert_eq!(case.ask(1, "slow"), ["send 2"]);
    case.now += 1000 * MS;
    assert_eq!(case.ask(2, "quick"), ["send 3"]);
    case.now += 1 * MS;
    case.answer(3, "refused");
    let told = case.after(999 * MS);
    assert_eq!(
        told,
        ["1 Unknown", "warn the check of scheme ldap gives no verdict in time"],
        "the program is heard of, so the connection stays"
    );
    assert_eq!(case.ask(3, "third"), ["send 4"]);
    assert_eq!(case.ask(4, "fourth"), Vec::<String>::new(), "the late one counts");
    assert_eq!(case.answer(2, "ok"), ["send 5"]);
}

#[test]
fn a_program_that_says_nothing_is_dialled_anew() {
    let mut case = Case::up(RULES);
    case.now += MS;
    assert_eq!(case.ask(1, "amy"), ["send 2"]);
    let told = case.after(RULES.time_max);
    assert!(
        told.contains(&"close".to_owned()) && told.contains(&"1 Unknown".to_owned()),
        "{told:?}"
    );
    case.now += Duration::from_secs(1);
    assert_eq!(case.ask(2, "amy"), ["dial"]);
}

#[test]
fn what_has_no_meaning_ends_the_connection_and_lets_nobody_in() {
    for bad in [
        "nonsense",
        "[]",
        "{}",
        r#"{"version":2,"id":2,"result":"ok","ids":["amy"]}"#,
        r#"{"id":2,"result":"ok","ids":["amy"]}"#,
        r#"{"version":1,"result":"ok","ids":["amy"]}"#,
        r#"{"version":1,"id":-2,"result":"ok","ids":["amy"]}"#,
        r#"{"version":1,"id":9,"result":"ok","ids":["amy"]}"#,
        r#"{"version":1,"id":2,"result":"OK","ids":["amy"]}"#,
        r#"{"version":1,"id":2,"result":"ok"}"#,
        r#"{"version":1,"id":2,"result":"ok","ids":[]}"#,
        r#"{"version":1,"id":2,"result":"ok","ids":[""]}"#,
        r#"{"version":1,"id":2,"result":"ok","ids":["a\nb"]}"#,
        r#"{"version":1,"id":2,"result":"ok","ids":[7]}"#,
        r#"{"version":1,"id":2,"result":"ok","ids":"amy"}"#,
        &format!(r#"{{"version":1,"id":2,"result":"ok","ids":["{}"]}}"#, "x".repeat(70_000)),
    ] {
        let mut case = Case::up(RULES);
        case.ask(1, "amy");
        let told = case.line(bad);
        assert_eq!(told.first().map(String::as_str), Some("close"), "{bad} {told:?}");
        assert!(!told.iter().any(|line| line.contains("Ids")), "{bad} {told:?}");
        assert!(case.after(RULES.time_max).contains(&"1 Unknown".to_owned()));
    }
    // A line that never ends.
    let mut case = Case::up(RULES);
    case.ask(1, "amy");
    let told = case.step(Input::Received(vec![b'x'; 70_000]));
    assert_eq!(told[0], "close");
}

#[test]
fn an_answer_may_come_in_pieces_and_two_at_once() {
    let mut case = Case::up(RULES);
    case.ask(1, "amy");
    case.ask(2, "bob");
    let text = "{\"version\":1,\"id\":2,\"result\":\"ok\",\"ids\":[\"amy\"]}\n{\"version\":1,\"id\":3,\"result\":\"refused\"}\n";
    let mut told = Vec::new();
    for byte in text.bytes() {
        told.extend(case.step(Input::Received(vec![byte])));
    }
    assert_eq!(told, [r#"1 Ids(["amy"])"#, "2 Refused"]);
}

#[test]
fn everything_has_a_limit() {
    let mut case = Case::new(RULES);
    assert_eq!(case.ask(0, &"x".repeat(DATA_BYTES_MAX + 1)), ["0 Refused"]);
    case.ask(1, "first");
    case.step(Input::Connected);
    for ticket in 2..=WAITING_MAX as u64 {
        // The same question, so that this test is quick.
        assert_eq!(
            case.ask(ticket, "same").iter().filter(|line| line.contains("Unknown")).count(),
            0
        );
    }
    let told = case.ask(0, "one more");
    assert!(told.contains(&"0 Unknown".to_owned()), "{told:?}");
    let mut case = Case::new(RULES);
    let bytes = |n: usize| format!("{n}{}", "x".repeat(DATA_BYTES_MAX - 3));
    let fit = WAITING_BYTES_MAX / DATA_BYTES_MAX;
    for n in 0..fit {
        assert!(!case.ask(n as u64, &bytes(n)).iter().any(|line| line.contains("Unknown")));
    }
    assert!(case.ask(0, &bytes(fit)).contains(&"0 Unknown".to_owned()));
    case.now += RULES.time_max;
    case.step(Input::Tick);
    assert_eq!(case.outside.bytes, 0);
    let mut case = Case::up(RULES);
    for n in 0..CACHE_MAX as u64 + 10 {
        case.ask(1, &n.to_string());
        case.answer(n + 2, "ok");
    }
    assert_eq!(case.outside.cache.len(), CACHE_MAX);
    assert_eq!(case.ask(2, "5").len(), 1);
}
