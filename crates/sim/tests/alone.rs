//! A server that runs alone, with its connections byte by byte, from a bounded number of seeds.

#[test]
fn a_server_alone_keeps_its_promises_through_pieces_limits_and_power_cuts() {
    let mut all = zebu_sim::alone::Outcome::default();
    for seed in 0..400 {
        let outcome = zebu_sim::alone::run_caught(seed);
        assert!(outcome.broken.is_empty(), "seed {seed}: {:?}", outcome.broken);
        all.answered += outcome.answered;
        all.crashes += outcome.crashes;
        all.synced_itself += outcome.synced_itself;
        all.worker_turns += outcome.worker_turns;
    }
    // The events that these seeds must produce have happened.
    assert!(all.answered > 50_000 && all.crashes > 500, "{all:?}");
    assert!(all.synced_itself > 5_000 && all.worker_turns > 5_000, "{all:?}");
}
