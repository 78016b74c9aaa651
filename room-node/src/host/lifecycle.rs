//! When an activation sleeps: decided from inputs and `now`, obeyed by the actor.

use crate::clock::Mono;
use crate::config::Config;

/// What the decision looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Inputs {
    pub(super) now: Mono,
    /// When the last command was decided. A wait without news is no command.
    pub(super) commanded: Mono,
    /// Volatile work forbids sleep.
    pub(super) busy: bool,
    /// A call that is no wait is parked.
    pub(super) work_parked: bool,
    /// A due handler that failed is asked again then; asleep, it would be asked at once.
    pub(super) backs_off_until: Option<Mono>,
    /// An agent heard on this activation has not seen the latest events yet.
    pub(super) behind: bool,
    /// Something of the object is in the store.
    pub(super) stored: bool,
}

/// What the actor does when its mailbox is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rest {
    /// Stays awake and asks again at this moment.
    Stay(Mono),
    /// Becomes a stub; one that cannot gives ownership up.
    Stub,
    /// Nothing was ever stored: leaves no trace.
    Vanish,
}

/// Decides what becomes of an activation with nothing to do.
pub(super) fn rest(config: &Config, inputs: Inputs) -> Rest {
    if inputs.busy || inputs.work_parked {
        return Rest::Stay(inputs.now.plus(config.idle_to_stub_ms));
    }
    if !inputs.stored {
        return Rest::Vanish;
    }
    let sleepy = inputs.commanded.plus(config.idle_to_stub_ms);
    if inputs.now < sleepy {
        return Rest::Stay(sleepy);
    }
    if let Some(until) = inputs.backs_off_until.filter(|until| *until > inputs.now) {
        return Rest::Stay(until);
    }
    // An agent that is behind comes back within its period and would only wake the object.
    if inputs.behind {
        return Rest::Stay(inputs.now.plus(config.wait_period_ms));
    }
    Rest::Stub
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table() {
        let config = Config::default();
        let idle = Inputs {
            now: Mono(30_000),
            commanded: Mono(0),
            busy: false,
            work_parked: false,
            backs_off_until: None,
            behind: false,
            stored: true,
        };
        let rows = [
            (idle, Rest::Stub),
            (Inputs { now: Mono(29_999), ..idle }, Rest::Stay(Mono(30_000))),
            (Inputs { busy: true, ..idle }, Rest::Stay(Mono(60_000))),
            (Inputs { work_parked: true, ..idle }, Rest::Stay(Mono(60_000))),
            (Inputs { backs_off_until: Some(Mono(31_000)), ..idle }, Rest::Stay(Mono(31_000))),
            (Inputs { backs_off_until: Some(Mono(30_000)), ..idle }, Rest::Stub),
            (Inputs { behind: true, ..idle }, Rest::Stay(Mono(40_000))),
            (Inputs { stored: false, now: Mono(0), ..idle }, Rest::Vanish),
        ];
        for (inputs, expected) in rows {
            assert_eq!(rest(&config, inputs), expected, "{inputs:?}");
        }
    }
}
