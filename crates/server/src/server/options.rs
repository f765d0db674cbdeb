//! The options of the parts of a server, from its configuration.

use std::time::Duration;

use zebu_engine::sasl::SaslScheme;
use zebu_proto::{ExtendedTypes, ServerId, SessionId};
use zebu_replica::auth::{AuthProvider, Digest, Ensemble, Key, Schemes, X509};
use zebu_replica::{
    IntakeOptions, MemberOptions, Options as ReplicaOptions, ReaperOptions, Rules, SnapshotOptions,
    ThrottleOptions,
};
use zebu_tree::Options as TreeOptions;

use crate::clients::outside::OutsideScheme;
use crate::config::{Compression, Config};
use crate::error::StartError;

/// Minimum time for which a server looks for a leader before it serves read-only clients.
const READ_ONLY_AFTER_MIN: Duration = Duration::from_secs(2);

pub(super) fn schemes(
    config: &Config,
    extra: Vec<Box<dyn AuthProvider>>,
) -> Result<Schemes, StartError> {
    let auth = &config.auth;
    let mut providers = extra;
    if auth.digest {
        let super_id = auth.super_digest.as_ref().map(|secret| secret.expose().to_owned());
        providers.push(Box::new(Digest::new(auth.digest_algorithm.parse()?, super_id)));
    }
    if auth.x509 {
        providers.push(Box::new(X509::new(auth.x509_super_user.clone())));
    }
    if auth.key {
        providers.push(Box::new(Key));
    }
    if let Some(names) = &auth.ensemble {
        providers.push(Box::new(Ensemble::new(names.clone())));
    }
    for check in &auth.outside {
        let scheme = OutsideScheme::start(check, auth.check_limits);
        let scheme = scheme.map_err(|source| StartError::System { what: "a scheme", source })?;
        providers.push(Box::new(scheme));
    }
    if auth.sasl.has_scheme {
        providers.push(Box::new(SaslScheme::new(auth.sasl.any_user.clone())));
    }
    let schemes = Schemes::new(providers, auth.skip_acl)
        .refusing_world_writes(auth.refuses_world_writes)
        .limited(config.limits.record_bytes_max());
    for scheme in &auth.enforced_schemes {
        if schemes.provider(scheme).is_none() {
            return Err(StartError::NoProvider(scheme.clone()));
        }
    }
    Ok(schemes)
}

pub(super) fn tree_options(config: &Config) -> TreeOptions {
    TreeOptions {
        types: extended_types(config),
        digest: config.snapshot.digest,
        hash_seed: std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0),
    }
}

fn extended_types(config: &Config) -> ExtendedTypes {
    ExtendedTypes {
        enabled: config.znodes.extended_types,
        emulate_353: config.znodes.emulate_353_ttl,
    }
}

pub(super) fn store_options(config: &Config) -> zebu_store::Options {
    let mut options = zebu_store::Options::new(&config.data.dir);
    options.log_dir.clone_from(&config.data.log_dir);
    if let Some(ensemble) = &config.ensemble {
        options.member = true;
        options.recent_txns_max = ensemble.learners.committed_txns as usize;
    }
    options.prealloc_bytes = config.log.preallocate_bytes;
    options.prealloc_adaptive = config.log.preallocate_adaptive;
    options.force_sync = config.log.fsync;
    options.fsync_warning = config.log.fsync_warning;
    options.log_size_limit = config.log.file_bytes_max;
    options.compression = match config.snapshot.compression {
        Compression::Plain => zebu_store::Compression::None,
        Compression::Gzip => zebu_store::Compression::Gzip,
        Compression::Snappy => zebu_store::Compression::Snappy,
    };
    options.digest = config.snapshot.digest;
    options.last_zxid_section = config.snapshot.last_zxid;
    options.trust_empty_snapshot = config.data.trust_empty_snapshot;
    options.autocreate_dirs = config.data.create_dirs;
    options.autocreate_db = config.data.create_db;
    options.record_bytes_max = config.limits.record_bytes_max();
    options.accept_damage = config.data.accept_damaged_log;
    options
}

pub(super) fn replica_options(config: &Config, wall_ms: i64) -> ReplicaOptions {
    let throttle = &config.connection_throttle;
    let weights = throttle.weights;
    let timeout_ms = |timeout: Duration| i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let server = config.ensemble.as_ref().map_or(ServerId(1), |ensemble| ensemble.me);
    let member =
        config.ensemble.as_ref().map_or_else(MemberOptions::default, |ensemble| MemberOptions {
            local_sessions: ensemble.local_sessions,
            upgrade_local_sessions: ensemble.upgrade_local_sessions,
            read_only_after: config
                .readonly_mode
                .then_some(READ_ONLY_AFTER_MIN.max(config.sessions.tick)),
            leader_serves: ensemble.leader_serves,
        });
    ReplicaOptions {
        server,
        first_session: SessionId::first(server, wall_ms),
        tick: config.sessions.tick,
        session_timeout_ms_min: timeout_ms(config.sessions.timeout_min),
        session_timeout_ms_max: timeout_ms(config.sessions.timeout_max),
        passwords: config.auth.session_passwords.clone(),
        rules: Rules {
            types: extended_types(config),
            enforce_quota: config.znodes.enforce_quota,
            close_session_lists_paths: config.log.close_session_txn,
            record_bytes_max: config.limits.record_bytes_max(),
            digest: config.snapshot.digest,
            reconfig: config.reconfig_enabled,
            members: config.ensemble.as_ref().map(|it| it.rules).unwrap_or_default(),
        },
        // This check is for members of an ensemble. For a standalone server, the validation
        // includes it.
        eager_acl_check: config.ensemble.is_some() && config.auth.eager_acl_check,
        throttled_op_wait: config.throttle.op_wait_max.unwrap_or_default(),
        connections: ThrottleOptions {
            tokens: throttle.tokens.unwrap_or(0),
            fill_time: throttle.fill_time,
            fill_count: throttle.fill_count,
            freeze_time: throttle.freeze_time,
            drop_increase: throttle.drop_increase,
            drop_decrease: throttle.drop_decrease,
            decrease_ratio: throttle.decrease_ratio,
            weighted: weights.is_some(),
            new_session_weight: weights.map_or(1, |weights| weights.global_session),
            local_session_weight: weights
                .filter(|_| member.local_sessions)
                .map(|weights| weights.local_session),
            renew_session_weight: weights.map_or(1, |weights| weights.renew_session),
        },
        intake: IntakeOptions {
            requests_max: config.throttle.requests_max,
            stall: config.throttle.stall,
            drop_stale: config.throttle.drop_stale,
            stale_by_latency: config.throttle.stale_by_latency,
            stale_by_connection: config.throttle.stale_by_connection,
        },
        reaper: ReaperOptions {
            interval: config.znodes.container_check_interval,
            per_minute_max: config.znodes.container_deletes_per_minute,
            never_used_max: config.znodes.container_never_used_max,
        },
        snapshots: SnapshotOptions {
            every_txns: config.snapshot.txns.into(),
            every_bytes: config.snapshot.log_bytes,
            log_percent: config.snapshot.log_percent,
        },
        member,
        seed: wall_ms as u64 ^ u64::from(std::process::id()) << 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_disk_reach_the_store() {
        let mut config = Config::embedded("/data");
        config.data.log_dir = "/log".into();
        config.log.preallocate_bytes = 1;
        config.log.preallocate_adaptive = true;
        config.log.file_bytes_max = Some(2);
        config.log.fsync = false;
        config.log.fsync_warning = Duration::from_millis(3);
        config.snapshot.compression = Compression::Gzip;
        config.snapshot.digest = false;
        config.snapshot.last_zxid = false;
        config.data.create_dirs = false;
        config.data.create_db = false;
        config.data.trust_empty_snapshot = true;
        config.data.accept_damaged_log = true;
        config.limits.packet_bytes = 40;
        config.limits.packet_extra_bytes = 2;
        let options = store_options(&config);
        assert_eq!(options.data_dir, std::path::Path::new("/data"));
        assert_eq!(options.log_dir, std::path::Path::new("/log"));
        assert_eq!((options.prealloc_bytes, options.log_size_limit), (1, Some(2)));
        assert!(options.prealloc_adaptive);
        assert!(!options.force_sync && options.fsync_warning == Duration::from_millis(3));
        assert_eq!(options.compression, zebu_store::Compression::Gzip);
        assert!(!options.digest && !options.last_zxid_section);
        assert!(!options.autocreate_dirs && !options.autocreate_db);
        assert!(options.trust_empty_snapshot && options.accept_damage);
        assert_eq!(options.record_bytes_max, 42);
    }
}
