use std::time::Duration;

use super::*;

fn guard() -> (Guard, Clock) {
    let clock = Clock::hand();
    (Guard::new(&Config::default(), &clock, 42), clock)
}

fn address(n: u32) -> Payer {
    Payer::Address(ClientAddr::new(std::net::Ipv4Addr::from_bits(n).into()))
}

fn handle(n: u128) -> Payer {
    Payer::Handle(ParticipantId(n))
}

/// How many calls pass before the first refusal, and that refusal.
fn drain(guard: &Guard, kind: object::Guard, payer: Payer) -> (u32, Refused) {
    let mut passed = 0;
    loop {
        match guard.admit(kind, payer) {
            Ok(()) => passed += 1,
            Err(refused) => return (passed, refused),
        }
    }
}

#[test]
fn budgets_are_the_defaults_and_say_when_to_come_back() {
    for (kind, payer, passes, retry_after_ms) in [
        (object::Guard::Join, address(1), 10, 6_000),
        (object::Guard::Info, address(1), 60, 1_000),
        (object::Guard::Call(1), handle(1), 240, 250),
        (object::Guard::Call(0), handle(1), 240, 250),
        (object::Guard::Call(8), handle(1), 30, 2_000),
        (object::Guard::Call(7), handle(1), 34, 1_250),
        // Heavier than the whole budget: as heavy as the budget.
        (object::Guard::Call(1_000), handle(1), 1, 60_000),
    ] {
        let (guard, clock) = guard();
        let got = drain(&guard, kind, payer);
        assert_eq!(got, (passes, Refused { retry_after_ms }), "{kind:?}");
        clock.advance(Duration::from_millis(retry_after_ms - 1));
        assert!(guard.admit(kind, payer).is_err(), "{kind:?} a millisecond early");
        clock.advance(Duration::from_millis(1));
        assert_eq!(guard.admit(kind, payer), Ok(()), "{kind:?}");
    }
}

#[test]
fn budgets_and_payers_are_apart() {
    let (guard, _clock) = guard();
    drain(&guard, object::Guard::Join, address(1));
    assert!(guard.admit(object::Guard::Info, address(1)).is_ok());
    assert!(guard.admit(object::Guard::Join, address(2)).is_ok());
    drain(&guard, object::Guard::Call(1), handle(7));
    assert!(guard.admit(object::Guard::Call(1), handle(8)).is_ok());
    assert!(guard.admit(object::Guard::Call(1), address(7)).is_ok());
}

#[test]
fn a_fresh_clients_first_dozen_calls_pass() {
    let (guard, _clock) = guard();
    for client in 1..=50_u32 {
        assert!(guard.admit(object::Guard::Join, address(client)).is_ok(), "{client}");
        for _ in 0..11 {
            let heavy = object::Guard::Call(8);
            assert!(guard.admit(heavy, handle(u128::from(client))).is_ok(), "{client}");
        }
    }
}

#[test]
fn a_flood_of_addresses_stays_within_the_table() {
    let (guard, _clock) = guard();
    for n in 0..300_000_u32 {
        let _ = guard.admit(object::Guard::Join, address(n));
    }
    let shown = guard.used_cells();
    let Guard { join, .. } = guard;
    let cells = join.cells.into_state_store();
    assert_eq!(cells.0.len(), GUARD_CELLS);
    let used = cells.0.iter().filter(|cell| cell.load(Ordering::Relaxed) != 0).count();
    assert!(used > GUARD_CELLS * 9 / 10, "{used} cells used: the hash spreads badly");
    assert_eq!(shown, used);
}

#[test]
fn a_minute_after_a_flood_everybody_has_a_full_budget() {
    let (guard, clock) = guard();
    for n in 0..300_000_u32 {
        let _ = guard.admit(object::Guard::Join, address(n));
    }
    clock.advance(Duration::from_secs(60));
    clock.advance(Duration::from_secs(60));
    assert_eq!(guard.used_cells(), 0);
    assert_eq!(drain(&guard, object::Guard::Join, address(999_999)).0, 10);
}
