//! Wakes an open loop when its next request is due, more precisely than the milliseconds of
//! `epoll_wait`.

#[cfg(target_os = "linux")]
pub(super) use linux::Timer;
#[cfg(not(target_os = "linux"))]
pub(super) use other::Timer;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::time::Duration;

    use mio::unix::SourceFd;
    use mio::{Interest, Poll, Token};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    #[derive(Debug)]
    pub(in crate::swarm) struct Timer(OwnedFd);

    impl Timer {
        pub(in crate::swarm) fn new(poll: &Poll, token: Token) -> io::Result<Self> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
            poll.registry().register(
                &mut SourceFd(&timer.as_raw_fd()),
                token,
                Interest::READABLE,
            )?;
            Ok(Self(timer))
        }

        pub(in crate::swarm) fn arm(&self, after: Duration) {
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec {
                tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(after.subsec_nanos()),
            };
            let once = Itimerspec { it_interval: zero, it_value: value };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)
                .expect("the timer is open and the time is in range");
        }
    }
}

/// Without a kernel timer, requests of an open loop are sent up to `TURN_MAX` late. Their latency
/// includes that delay.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;
    use std::time::Duration;

    use mio::{Poll, Token};

    #[derive(Debug)]
    pub(in crate::swarm) struct Timer;

    impl Timer {
        pub(in crate::swarm) fn new(_poll: &Poll, _token: Token) -> io::Result<Self> {
            Ok(Self)
        }

        pub(in crate::swarm) fn arm(&self, _after: Duration) {}
    }
}
