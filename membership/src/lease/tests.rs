use super::*;

fn terms() -> Terms {
    let terms = Terms::default();
    assert_eq!(Terms::new(terms.ttl_ms(), terms.heartbeat_ms()), Ok(terms));
    terms
}

#[test]
fn terms_hold_four_heartbeats() {
    let cases = [
        (5_000, 1_000, Ok(1_000)),
        (4_000, 1_000, Ok(800)),
        (400, 100, Ok(80)),
        (60_000, 1_000, Ok(1_000)),
        (3_999, 1_000, Err(TermsError::Heartbeat)),
        (5_000, 0, Err(TermsError::Heartbeat)),
        (5_000, u64::MAX, Err(TermsError::Heartbeat)),
        (99, 10, Err(TermsError::Ttl)),
        (600_001, 1_000, Err(TermsError::Ttl)),
    ];
    for (ttl, heartbeat, margin) in cases {
        assert_eq!(Terms::new(ttl, heartbeat).map(Terms::margin_ms), margin, "{ttl} {heartbeat}");
    }
}

#[test]
fn a_lost_heartbeat_is_repeated_soon_whatever_its_period() {
    for (heartbeat, retry) in [(1, 1), (100, 25), (1_000, RETRY_MS_MAX), (100_000, RETRY_MS_MAX)] {
        let terms = Terms::new(TTL_MS_MAX, heartbeat).unwrap();
        assert_eq!(terms.retry_ms(), retry, "{heartbeat}");
    }
}

#[test]
fn a_lease_counts_from_before_the_sending() {
    let mut lease = Lease::joined(terms(), Mono(1_000), Mono(1_800));
    assert_eq!(lease.until(), Some(Mono(5_000)));
    assert!(lease.is_leased(Mono(4_999)) && !lease.is_leased(Mono(5_000)));
    assert_eq!(lease.beat_at(), Some(Mono(2_000)));
    lease.renewed(Mono(2_000), Mono(2_001));
    assert_eq!(lease.until(), Some(Mono(6_000)));
}

#[test]
fn silence_ends_it_and_a_renewal_takes_it_up_again() {
    let mut lease = Lease::joined(terms(), Mono(1_000), Mono(1_001));
    for at in [2_000, 2_400, 2_800, 3_200, 3_600, 4_000, 4_400, 4_800] {
        lease.failed(Mono(at));
        assert_eq!(lease.standing(), Standing::Leased, "{at}");
        assert_eq!(lease.beat_at(), Some(Mono(at + 250)));
    }
    lease.look(Mono(5_000));
    assert_eq!((lease.standing(), lease.self_fences()), (Standing::Lapsed, 1));
    assert_eq!(lease.until(), None);
    lease.renewed(Mono(5_100), Mono(5_101));
    assert_eq!((lease.standing(), lease.self_fences()), (Standing::Leased, 1));
}

#[test]
fn an_answer_that_took_longer_than_the_lease_gives_none() {
    let mut lease = Lease::joined(terms(), Mono(1_000), Mono(1_001));
    lease.renewed(Mono(2_000), Mono(6_000));
    assert_eq!((lease.standing(), lease.self_fences()), (Standing::Lapsed, 1));
    assert_eq!(lease.beat_at(), Some(Mono(6_000)), "the next one is due at once");
}

#[test]
fn a_lease_that_ran_out_unseen_is_a_self_fence_all_the_same() {
    let mut lease = Lease::joined(terms(), Mono(1_000), Mono(1_001));
    lease.renewed(Mono(4_900), Mono(5_200));
    assert_eq!((lease.standing(), lease.self_fences()), (Standing::Leased, 1));
}

#[test]
fn refused_is_for_good() {
    for why in [Lost::Ended, Lost::Unknown] {
        let mut lease = Lease::joined(terms(), Mono(1_000), Mono(1_001));
        lease.refused(why, Mono(2_000));
        assert!(!lease.is_leased(Mono(2_000)));
        lease.renewed(Mono(2_000), Mono(2_001));
        lease.failed(Mono(2_002));
        assert_eq!((lease.standing(), lease.beat_at()), (Standing::Lost(why), None));
        assert_eq!(lease.self_fences(), 0);
    }
}

#[test]
fn who_left_holds_nothing_and_is_not_lost() {
    let mut lease = Lease::joined(terms(), Mono(1_000), Mono(1_001));
    lease.left();
    assert!(!lease.is_leased(Mono(1_001)));
    lease.refused(Lost::Ended, Mono(1_100));
    lease.renewed(Mono(1_000), Mono(1_101));
    assert_eq!((lease.standing(), lease.beat_at()), (Standing::Left, None));
}

#[test]
fn a_pause_asks_the_table_at_once() {
    let mut lease = Lease::joined(terms(), Mono(1_000), Mono(1_001));
    lease.look(Mono(1_501));
    assert_eq!((lease.gaps(), lease.beat_at()), (0, Some(Mono(2_000))));
    lease.renewed(Mono(1_502), Mono(1_502));
    lease.look(Mono(2_003));
    assert_eq!((lease.gaps(), lease.beat_at()), (1, Some(Mono(2_003))));
    assert!(lease.is_leased(Mono(2_003)));
}

/// The node table as far as one lease goes, on a clock of its own that drifts and is set
/// differently.
struct Model {
    ends: u64,
    ended: bool,
    skew: u64,
    /// Thousandths by which its clock is fast: negative is slow.
    drift: i64,
}

impl Model {
    fn time(&self, real: u64) -> u64 {
        let drift = i64::try_from(real).unwrap() * self.drift / 1_000;
        (real + self.skew).saturating_add_signed(drift)
    }

    fn renew(&mut self, real: u64, ttl: u64) -> bool {
        if !self.ended {
            self.ends = self.time(real) + ttl;
        }
        !self.ended
    }

    fn poll(&mut self, real: u64) {
        self.ended |= self.time(real) > self.ends;
    }
}

/// One node whose renewals are delayed and lost both ways, whose loop stops now and then, against a
/// table that others poll all the time: the node must never think it is leased once it ended.
#[test]
fn no_lease_outlives_its_tombstone() {
    let (mut tombs, mut fences, mut resumed) = (0, 0, 0);
    for seed in 0..150 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model = Model {
            ends: 0,
            ended: false,
            skew: random.u64(0..1 << 40),
            drift: random.i64(-9..=9),
        };
        assert!(model.renew(1_000, 5_000));
        let mut lease = Lease::joined(terms(), Mono(1_000), Mono(1_000 + random.u64(0..50)));
        // When the renewal arrives there, when its answer arrives here; of one in flight.
        let mut flight: Option<(Mono, u64, u64)> = None;
        let mut written = None;
        let mut paused_until = 0;
        let trouble = random.u64(0..100);
        for real in 1_050..20_000_u64 {
            model.poll(real);
            let now = Mono(real);
            assert!(!(model.ended && lease.is_leased(now)), "seed {seed} at {real}");
            if let Some((_, there, _)) = flight
                && there == real
            {
                written = Some(model.renew(real, 5_000));
            }
            if real < paused_until {
                continue;
            }
            if random.u64(0..3_000) < trouble / 10 {
                paused_until = real + random.u64(0..6_000);
            }
            let before = lease.standing();
            lease.look(now);
            if let Some((sent, _, here)) = flight
                && here <= real
            {
                match written.take() {
                    Some(true) => lease.renewed(sent, now),
                    Some(false) => lease.refused(Lost::Ended, now),
                    None => lease.failed(now),
                }
                flight = None;
            }
            resumed +=
                u32::from(before == Standing::Lapsed && lease.standing() == Standing::Leased);
            if flight.is_none() && lease.beat_at().is_some_and(|at| at <= now) {
                let there = real + 1 + random.u64(0..20) * random.u64(0..=trouble);
                let lost = random.u64(0..100) < trouble / 2;
                let here = there + 1 + random.u64(0..20) * random.u64(0..=trouble);
                flight = Some((now, if lost { 0 } else { there }, here));
                written = None;
            }
        }
        tombs += u32::from(model.ended);
        fences += lease.self_fences();
    }
    println!("{tombs} tombstones, {fences} self-fences, {resumed} taken up again");
    assert!(tombs > 10 && fences > 20 && resumed > 10, "the faults did not bite");
}
