//! Explores the model at a scope from the command line:
//! `zebu-model [servers] [epochs] [txns] [disk-loss] [late] [deliveries]`.

use std::process::ExitCode;

use zebu_model::explore::Scope;
use zebu_model::{Majority, Rules};

fn main() -> ExitCode {
    let mut scope = Scope::new(3, 2, 1);
    let mut numbers = Vec::new();
    for argument in std::env::args().skip(1) {
        match (argument.as_str(), argument.parse::<usize>()) {
            ("disk-loss", _) => scope.disk_loss = true,
            ("late", _) => scope.late = true,
            ("deliveries", _) => scope.deliveries = true,
            ("observes", _) => scope.observes = true,
            (_, Ok(number)) if (1..=5).contains(&number) => numbers.push(number),
            _ => {
                eprintln!(
                    "usage: zebu-model [servers] [epochs] [txns] [disk-loss] [late] [deliveries] \
                     [observes]"
                );
                return ExitCode::from(2);
            }
        }
    }
    let mut numbers = numbers.into_iter();
    scope.servers = numbers.next().unwrap_or(scope.servers);
    scope.epochs = numbers.next().map_or(scope.epochs, |epochs| epochs as u32);
    scope.txns = numbers.next().unwrap_or(scope.txns);
    let report = scope.explore(&Rules::new(Majority(scope.servers)));
    println!(
        "{} states, {} actions, depth {}, at most {} transactions committed",
        report.states, report.actions, report.depth, report.agreed_max
    );
    let Some((broken, way)) = report.broken else {
        println!("every invariant holds in every state");
        return ExitCode::SUCCESS;
    };
    println!("{} ({}) does not hold after", broken.name, broken.id);
    way.iter().for_each(|action| println!("  {action:?}"));
    ExitCode::FAILURE
}
