use super::*;

const LONG: Duration = Duration::from_secs(60);

fn repeats(failure: Failure, repeatable: bool) -> bool {
    let next = next(failure, Safety { repeatable }, 1, Duration::ZERO, LONG);
    next == Next::Repeat { backoff_max: BACKOFF_FIRST }
}

#[test]
fn each_failure_is_repeated_only_where_that_is_safe() {
    for (failure, unkeyed, keyed) in [
        (Failure::NotSent, true, true),
        (Failure::Lost, false, true),
        (Failure::TimedOut, false, false),
        (Failure::Refused(Class::NotOwner), true, true),
        (Failure::Refused(Class::Fenced), true, true),
        (Failure::Refused(Class::OutcomeUnknown), false, true),
        (Failure::Refused(Class::Overloaded), false, false),
        (Failure::Refused(Class::TooFast), false, false),
        (Failure::Refused(Class::Unavailable), false, false),
        (Failure::Refused(Class::Invalid), false, false),
        (Failure::Refused(Class::Gone), false, false),
        (Failure::Refused(Class::Internal), false, false),
        (Failure::Refused(Class::Deadline), false, false),
    ] {
        assert_eq!(repeats(failure, false), unkeyed, "{failure:?}");
        assert_eq!(repeats(failure, true), keyed, "{failure:?}");
    }
}

#[test]
fn attempts_hops_window_and_deadline_end_it() {
    let safety = Safety { repeatable: true };
    let owner = Failure::Refused(Class::NotOwner);
    let ms = Duration::from_millis;
    for (failure, attempts, since, remaining, want) in [
        (Failure::Lost, 1, ms(0), LONG, Some(ms(25))),
        (Failure::Lost, 2, ms(0), LONG, Some(ms(50))),
        (Failure::Lost, 3, ms(0), LONG, Some(ms(100))),
        (Failure::Lost, 4, ms(0), LONG, Some(ms(200))),
        (Failure::Lost, 5, ms(0), LONG, None),
        (owner, 3, ms(0), LONG, Some(ms(100))),
        (owner, 4, ms(0), LONG, None),
        (Failure::Lost, 1, ms(9_975), LONG, Some(ms(25))),
        (Failure::Lost, 1, ms(9_976), LONG, None),
        (Failure::Lost, 1, ms(0), ms(26), Some(ms(25))),
        (Failure::Lost, 1, ms(0), ms(25), None),
        (Failure::Lost, u32::MAX, ms(0), LONG, None),
    ] {
        let want = want.map_or(Next::GiveUp, |backoff_max| Next::Repeat { backoff_max });
        assert_eq!(
            next(failure, safety, attempts, since, remaining),
            want,
            "{failure:?} {attempts}"
        );
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
