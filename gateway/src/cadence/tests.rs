use super::*;

fn cadence() -> (Cadence, Clock) {
    let clock = Clock::hand();
    (Cadence::new(&Config::default(), &clock, 42), clock)
}

fn pid(n: u128) -> ParticipantId {
    ParticipantId::from_random(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

const fn refused(retry_after_ms: u64) -> Result<(), Refused> {
    Err(Refused { retry_after_ms })
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn the_owners_word_holds_to_the_millisecond() {
    for next in [1, 2_000, 10_000, 25_000] {
        let (cadence, clock) = cadence();
        assert_eq!(cadence.admit(pid(1)), Ok(()), "unknown: the owner decides");
        cadence.remember(pid(1), next);
        assert_eq!(cadence.admit(pid(1)), refused(next));
        assert_eq!(cadence.admit(pid(2)), Ok(()), "another participant");
        clock.advance(ms(next) - Duration::from_nanos(1));
        assert_eq!(cadence.admit(pid(1)), refused(1), "{next}");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(cadence.admit(pid(1)), Ok(()), "{next}");
    }
}

#[test]
fn a_next_of_zero_admits_at_once() {
    let (cadence, _clock) = cadence();
    cadence.remember(pid(1), 0);
    assert_eq!(cadence.admit(pid(1)), Ok(()));
}

#[test]
fn the_flood_cell_counts_all_attempts_and_the_larger_remainder_is_told() {
    // Defaults: P 2 s, B 3, so one attempt per 500 ms in bursts of 12.
    let (cadence, clock) = cadence();
    for attempt in 0..12 {
        assert_eq!(cadence.admit(pid(1)), Ok(()), "{attempt}");
    }
    assert_eq!(cadence.admit(pid(1)), refused(500));
    // The owner's remainder is larger, then smaller.
    cadence.remember(pid(1), 700);
    assert_eq!(cadence.admit(pid(1)), refused(700));
    clock.advance(ms(300));
    assert_eq!(cadence.admit(pid(1)), refused(400));
    cadence.remember(pid(1), 100);
    assert_eq!(cadence.admit(pid(1)), refused(200));
    clock.advance(ms(200));
    assert_eq!(cadence.admit(pid(1)), Ok(()));
}

#[test]
fn attempts_refused_by_the_owners_word_are_counted_too() {
    let (cadence, clock) = cadence();
    cadence.remember(pid(1), 1_000);
    for _ in 0..12 {
        assert_eq!(cadence.admit(pid(1)), refused(1_000));
    }
    clock.advance(ms(400));
    // 600 ms of the owner's are left, 100 of the flood cell's.
    assert_eq!(cadence.admit(pid(1)), refused(600));
}

#[test]
fn a_caller_that_honours_the_answer_is_never_refused() {
    // Any owner's answers, polls at the named time plus what the way takes.
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..50 {
        let (cadence, clock) = cadence();
        let mut refusals = 0;
        for _ in 0..200 {
            match cadence.admit(pid(round)) {
                Ok(()) => {
                    let next = [0, 0, 2_000, 2_000, 10_000][random.usize(..5)];
                    // The owner's word is at least P apart in the long run (ours 7).
                    cadence.remember(pid(round), next);
                    clock.advance(ms(next.max(500)));
                }
                Err(_) => refusals += 1,
            }
            clock.advance(Duration::from_nanos(random.u64(..2_000_000)));
        }
        assert_eq!(refusals, 0, "{round}");
    }
}

#[test]
fn a_sprayer_that_honours_its_refusal_gets_in() {
    let (cadence, clock) = cadence();
    let mut last = 0;
    for _ in 0..100 {
        if let Err(refused) = cadence.admit(pid(1)) {
            last = refused.retry_after_ms;
        }
    }
    assert_eq!(last, 500);
    clock.advance(ms(last));
    assert_eq!(cadence.admit(pid(1)), Ok(()));
}

#[test]
fn the_table_is_bounded_and_keeps_the_latest() {
    let (cadence, clock) = cadence();
    let crowd = CADENCE_ENTRIES_MAX as u128 * 2;
    for n in 1..=crowd {
        cadence.remember(pid(n), 10_000);
        clock.advance(Duration::from_nanos(1_000));
    }
    assert!(cadence.len() <= CADENCE_ENTRIES_MAX);
    assert!(cadence.len() > CADENCE_ENTRIES_MAX * 9 / 10, "{}", cadence.len());
    let kept = (crowd - 1_000..=crowd).filter(|n| cadence.admit(pid(*n)).is_err()).count();
    assert!(kept > 990, "{kept} of the last thousand");
}

#[test]
fn periods_of_milliseconds_and_of_nothing_work() {
    for (active_ms, burst) in [(0, 1), (1, 1), (20, 2)] {
        let clock = Clock::hand();
        let config = Config {
            wait_active_period: ms(active_ms),
            wait_burst: NonZeroU32::new(burst).unwrap(),
            ..Config::default()
        };
        let cadence = Cadence::new(&config, &clock, 1);
        for _ in 0..burst * FLOOD_BURST_FACTOR {
            assert_eq!(cadence.admit(pid(1)), Ok(()), "{active_ms}");
        }
        clock.advance(ms(active_ms) + Duration::from_nanos(1));
        assert_eq!(cadence.admit(pid(1)), Ok(()), "{active_ms}");
    }
}
