//! The sizes of files, and the intervals at which they are written.

use super::*;

#[test]
fn a_number_of_txns_between_snapshots_is_kept_unless_a_share_of_the_tree_is_asked_for_too() {
    let percent = |file| Case::file(file).config().snapshot.log_percent;
    assert_eq!(percent(""), 100);
    assert_eq!(percent("snapCount=5000"), 0);
    assert_eq!(percent("snapCount=5000\nzebu.snapLogPercent=50"), 50);
    assert_eq!(percent("zebu.snapLogPercent=0"), 0);
}

#[test]
fn sizes_become_bytes_and_zero_becomes_none() {
    let config = Case::file("preAllocSize=1\nsnapSizeLimitInKb=0\ntxnLogSizeLimitInKb=2\nmaxBatchSize=0\nmaxClientCnxns=0\n\
                             flushDelay=9\nthrottled_op_wait_time=5\nclientPortListenBacklog=128").config();
    assert_eq!(config.log.preallocate_bytes, 1024);
    assert_eq!(config.snapshot.log_bytes, None);
    assert_eq!(config.log.file_bytes_max, Some(2048));
    assert_eq!(config.log.batch_txns_max, None);
    assert_eq!(config.log.queue_poll_max, 3 * MS);
    assert_eq!(config.limits.connections_per_address, None);
    assert_eq!(config.throttle.op_wait_max, Some(5 * MS));
    assert_eq!(config.net.backlog, Some(128));
    assert_eq!(Case::raw_file("dataDir=/d\nclientPort=0").config().net.client_port, None);
    assert_eq!(Case::raw_file("dataDir=/d").set("clientPort=0").config().net.client_port, Some(0));
}
