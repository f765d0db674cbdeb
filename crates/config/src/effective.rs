//! Every setting with its value and its origin, for `--check` and for the start of a log.

use std::fmt;

use super::registry::{Default, Fate};
use super::settings::Config;
use super::sources::{Merged, Origin};
use super::table::SETTINGS;

/// One setting in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// The key in `zoo.cfg`.
    pub key: String,
    /// The value as text; a secret is masked.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
    /// The basis of a computed default.
    pub computed_from: Option<&'static str>,
    /// Whether this server uses it.
    pub has_effect: bool,
}

/// All known settings in the order of the table, and the given ones of each family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The settings.
    pub settings: Vec<EffectiveSetting>,
}

impl Effective {
    pub(super) fn new(merged: &Merged, config: &Config) -> Self {
        let mut settings = Vec::new();
        for setting in SETTINGS {
            let has_effect = setting.fate == Fate::Supported;
            let mut is_given = false;
            for given in merged.given.values().filter(|given| std::ptr::eq(given.setting, setting))
            {
                is_given = true;
                settings.push(EffectiveSetting {
                    key: given.key.clone(),
                    value: given.shown().to_owned(),
                    origin: given.origin.clone(),
                    computed_from: None,
                    has_effect,
                });
            }
            // A setting that was not given is only listed if it has an effect.
            if is_given || !has_effect {
                continue;
            }
            let (value, computed_from) = match setting.default {
                Default::None | Default::Value("") => continue,
                Default::Value(text) => (text.to_owned(), None),
                Default::Computed(how) => match computed(setting.key, config) {
                    Some(value) => (value, Some(how)),
                    None => continue,
                },
            };
            settings.push(EffectiveSetting {
                key: setting.key.to_owned(),
                value,
                origin: Origin::Default,
                computed_from,
                has_effect,
            });
        }
        Self { settings }
    }
}

/// The result of a computed default.
fn computed(key: &str, config: &Config) -> Option<String> {
    Some(match key {
        // Without a port there is no address: such a file would be refused.
        "clientPortAddress" => {
            config.net.client_port?;
            config.net.client_address.clone().unwrap_or_else(|| "0.0.0.0".to_owned())
        }
        "dataLogDir" => config.data.log_dir.display().to_string(),
        "maxWriteQueuePollTime" => config.log.queue_poll_max.as_millis().to_string(),
        "zebu.snapLogPercent" => config.snapshot.log_percent.to_string(),
        "minSessionTimeout" => config.sessions.timeout_min.as_millis().to_string(),
        "maxSessionTimeout" => config.sessions.timeout_max.as_millis().to_string(),
        "jute.maxbuffer.extrasize" => config.limits.packet_extra_bytes.to_string(),
        "4lw.commands.whitelist" => config.four_letter_words.join(","),
        "zebu.refuseWorldWrites" => config.auth.refuses_world_writes.to_string(),
        "zebu.authFailuresPerMinute" => config.auth.failures_per_minute.to_string(),
        "zebu.maxConnectionsPerIdentity" => config.limits.connections_per_identity.to_string(),
        _ => return None,
    })
}

impl fmt::Display for Effective {
    /// Two lines per setting, the origin as a comment, so that the text is a `zoo.cfg` again
    /// (masked secrets apart).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for setting in &self.settings {
            let effect = if setting.has_effect { "" } else { ", no effect" };
            let how = setting.computed_from.map(|how| format!(": {how}")).unwrap_or_default();
            writeln!(f, "# {}{how}{effect}", setting.origin)?;
            writeln!(f, "{}={}", setting.key, setting.value)?;
        }
        Ok(())
    }
}
