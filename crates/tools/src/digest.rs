//! `zebu digest`: prints the `digest` identity for a user and a password, as ACLs and `superDigest`
//! contain it.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::failure::Failure;

/// Arguments of `zebu digest`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(
    about = "Print the id of a user with a password, for ACLs of the scheme digest and for superDigest",
    long_about = "Print the id of a user with a password, for ACLs of the scheme digest and for superDigest.\n\n\
        Prints NAME:PASSWORD->NAME:HASH, as the original's DigestAuthenticationProvider does.",
    after_long_help = "\
Examples:
  zebu digest amy:secret
  zebu digest < file        better: other users of the machine cannot see the password

Exit codes: 0 done, 1 no name and password."
)]
pub struct DigestArgs {
    /// Name and password; without them, each line of stdin is read
    #[arg(value_name = "NAME:PASSWORD")]
    pub credentials: Vec<String>,
}

/// Prints a line for each pair.
pub fn run(args: &DigestArgs) -> ExitCode {
    let shown = if args.credentials.is_empty() {
        io::stdin().lines().try_for_each(|line| show(&line?))
    } else {
        args.credentials.iter().try_for_each(|credentials| show(credentials))
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn show(credentials: &str) -> Result<(), Failure> {
    let digest = digest(credentials).ok_or_else(|| Failure::new("error: no NAME:PASSWORD"))?;
    Ok(writeln!(io::stdout(), "{credentials}->{digest}")?)
}

/// The name ends at the first colon. A password may contain further colons.
fn digest(credentials: &str) -> Option<String> {
    let (name, password) = credentials.split_once(':')?;
    Some(zebu_client::digest(name, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ACL-08: what the original's own generator prints.
    #[test]
    fn names_and_passwords_have_digests() {
        assert_eq!(digest("amy:secret").as_deref(), Some("amy:Iq0onHjzb4KyxPAp8YWOIC8zzwY="));
        assert_eq!(digest("super:asdf").as_deref(), Some("super:T+4Qoey4ZZ8Fnni1Yl2GZtbH2W4="));
        assert_eq!(digest("nobody"), None);
    }
}
