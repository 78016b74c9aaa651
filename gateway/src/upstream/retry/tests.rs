use super::*;

const LONG: Duration = Duration::from_secs(60);
const KEYED: Options = Options { repeatable: true, hinted: false, can_move: true };
const FRESH: Progress =
    Progress { doubts: 1, hops: 0, pauses: 0, since_failure: Duration::ZERO, remaining: LONG };

fn hold(ms: u64) -> Next {
    Next::Hold { backoff_max: Duration::from_millis(ms) }
}

fn repeat(ms: u64) -> Next {
    Next::Repeat { backoff_max: Duration::from_millis(ms) }
}

#[test]
fn each_failure_is_repeated_only_where_that_is_safe() {
    for (failure, unkeyed, keyed) in [
        (Failure::NotSent, hold(25), hold(25)),
        (Failure::Lost, Next::GiveUp, repeat(25)),
        (Failure::TimedOut, Next::GiveUp, Next::GiveUp),
        (Failure::Refused(Class::NotOwner), hold(25), hold(25)),
        (Failure::Refused(Class::Fenced), hold(25), hold(25)),
        (Failure::Refused(Class::OutcomeUnknown), Next::GiveUp, repeat(25)),
    ] {
        let options = Options { repeatable: false, ..KEYED };
        assert_eq!(next(failure, options, FRESH), unkeyed, "{failure:?}");
        assert_eq!(next(failure, KEYED, FRESH), keyed, "{failure:?}");
    }
    for number in 1..=16 {
        let class = proto::class::class(number);
        if matches!(class, Class::NotOwner | Class::Fenced | Class::OutcomeUnknown) {
            continue;
        }
        let options = Options { hinted: true, ..KEYED };
        assert_eq!(next(Failure::Refused(class), options, FRESH), Next::GiveUp, "{class:?}");
    }
}

#[test]
fn hints_are_followed_three_times_under_one_view() {
    let hinted = Options { hinted: true, ..KEYED };
    let owner = Failure::Refused(Class::NotOwner);
    for (hops, want) in [(0, Next::Follow), (2, Next::Follow), (3, hold(25)), (9, hold(25))] {
        assert_eq!(next(owner, hinted, Progress { hops, ..FRESH }), want, "{hops}");
    }
    assert_eq!(next(owner, KEYED, FRESH), hold(25), "no hint");
    assert_eq!(next(Failure::NotSent, hinted, FRESH), hold(25), "nobody was asked");
}

#[test]
fn attempts_hops_window_and_deadline_end_it() {
    let ms = Duration::from_millis;
    let owner = Failure::Refused(Class::NotOwner);
    let unknown = Failure::Refused(Class::OutcomeUnknown);
    for (failure, doubts, pauses, since, remaining, want) in [
        (Failure::Lost, 1, 0, ms(0), LONG, repeat(25)),
        (Failure::Lost, 2, 9, ms(0), LONG, repeat(50)),
        (unknown, 4, 0, ms(0), LONG, repeat(200)),
        (Failure::Lost, 5, 0, ms(0), LONG, Next::GiveUp),
        (Failure::Lost, 1, 0, ms(9_975), LONG, repeat(25)),
        (Failure::Lost, 1, 0, ms(9_976), LONG, Next::GiveUp),
        (Failure::Lost, 1, 0, ms(0), ms(26), repeat(25)),
        (Failure::Lost, 1, 0, ms(0), ms(25), Next::GiveUp),
        (Failure::Lost, u32::MAX, u32::MAX, ms(0), LONG, Next::GiveUp),
        // Nothing ran: as long as the window and the deadline allow.
        (owner, 0, 3, ms(0), LONG, hold(200)),
        (owner, 0, 4, ms(0), LONG, hold(250)),
        (owner, 0, u32::MAX, ms(9_750), LONG, hold(250)),
        (owner, 0, 99, ms(9_751), LONG, Next::GiveUp),
        (owner, 0, 99, ms(0), ms(10), hold(10)),
        (owner, 0, 0, ms(0), ms(0), Next::GiveUp),
    ] {
        let progress = Progress { doubts, hops: 0, pauses, since_failure: since, remaining };
        assert_eq!(next(failure, KEYED, progress), want, "{failure:?} {doubts} {pauses}");
    }
}

#[test]
fn without_a_view_nothing_is_waited_for_long() {
    let options = Options { can_move: false, ..KEYED };
    for failure in [Failure::NotSent, Failure::Refused(Class::NotOwner)] {
        for (pauses, want) in [(0, hold(25)), (3, hold(200)), (4, Next::GiveUp)] {
            assert_eq!(next(failure, options, Progress { pauses, ..FRESH }), want);
        }
    }
}

#[test]
fn jitter_stays_within_its_upper_end() {
    let max = Duration::from_millis(200);
    assert_eq!(jitter(max, 0), Duration::ZERO);
    assert_eq!(jitter(max, u32::MAX), max);
    assert!(jitter(max, u32::MAX / 2) < Duration::from_millis(101));
}

#[test]
fn the_budget_is_a_fifth_of_the_traffic() {
    let budget = Budget::full();
    let in_hand = (0..1_000).take_while(|_| budget.spend()).count();
    assert_eq!(in_hand, 64);
    for _ in 0..4 {
        budget.earn();
    }
    assert!(!budget.spend());
    budget.earn();
    assert!(budget.spend());
    for _ in 0..10_000 {
        budget.earn();
    }
    assert_eq!((0..1_000).take_while(|_| budget.spend()).count(), 64);
}
