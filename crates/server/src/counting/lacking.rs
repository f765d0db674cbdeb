//! What a member that does not serve waits for, in words.

use zebu_proto::{ServerId, Zxid};
use zebu_zab::{Lacks, Leave};

/// The missing conditions of a member without a leader.
pub(super) fn in_words(lacks: Lacks, repair: &[String]) -> Vec<String> {
    let mut words = vec![format!("looking for a leader: {}", lacks.why)];
    if lacks.abstains {
        words.push(
            "this server's own data are lost, damaged or put back: it waits for a leader elected without it".to_owned(),
        );
    }
    words.extend(who_has_forgotten(&lacks));
    words.extend_from_slice(repair);
    let mut name = |what: &str, servers: &[ServerId]| {
        if !servers.is_empty() {
            words.push(format!("{what}: {}", ids(servers)));
        }
    };
    name("voters that cannot be reached", &lacks.unreachable);
    name(
        "voters that do not vote, since their data are lost, damaged or put back",
        &lacks.abstaining,
    );
    words
}

/// At a member that does not follow, because it would lose committed transactions: which other
/// voters lack the newest of them.
pub(crate) fn who_has_forgotten(lacks: &Lacks) -> Vec<String> {
    let Leave::WouldForget { certain, .. } = lacks.why else { return Vec::new() };
    let mut words = vec![format!(
        "voters without {certain:?}, in their own history or in that of their leader: {}; this server cannot tell \
         whether they lost {certain:?} or never received it",
        ids(&lacks.without_certain)
    )];
    if !lacks.may_have_certain.is_empty() {
        words.push(format!(
            "voters of which this server does not know whether they have {certain:?}: {}",
            ids(&lacks.may_have_certain)
        ));
    }
    words
}

/// The missing conditions of a member whose tree differs.
pub(super) fn doubted_in_words(since: Zxid) -> Vec<String> {
    vec![format!(
        "this server's tree differs from its leader's since {since}: it waits for a digest that agrees, or for the \
         leader's whole tree"
    )]
}

fn ids(servers: &[ServerId]) -> String {
    let ids: Vec<String> = servers.iter().map(|server| server.0.to_string()).collect();
    ids.join(", ")
}

#[cfg(test)]
mod tests {
    use zebu_proto::Epoch;

    use super::*;

    #[test]
    fn who_has_forgotten_is_named_beside_those_that_nobody_knows_of() {
        let zxid = |counter| Zxid::new(Epoch(1), counter);
        let why = Leave::WouldForget { leader: ServerId(3), end: zxid(4), certain: zxid(5) };
        let lacks = Lacks {
            why,
            abstains: false,
            unreachable: vec![ServerId(5)],
            abstaining: Vec::new(),
            without_certain: vec![ServerId(2), ServerId(3)],
            may_have_certain: vec![ServerId(4), ServerId(5)],
        };
        let words = in_words(lacks.clone(), &[]);
        assert_eq!(words.len(), 4, "{words:#?}");
        assert!(
            words[1].starts_with("voters without 0x100000005")
                && words[1].contains("leader: 2, 3;"),
            "{words:#?}"
        );
        assert!(words[2].ends_with("whether they have 0x100000005: 4, 5"), "{words:#?}");
        let started = Lacks { why: Leave::Started, ..lacks };
        assert!(who_has_forgotten(&started).is_empty());
    }
}
