use super::*;

const A: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const B: &str = "ICECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NONCE: [u8; NONCE_BYTES] = [7; NONCE_BYTES];

fn sealer(region: &str, keys: &str) -> Sealer {
    Sealer::new(region, KeyRing::parse(keys).unwrap()).unwrap()
}

fn room(name: &str) -> ObjectId {
    ObjectId::new(room::KIND, name).unwrap()
}

fn pid() -> ParticipantId {
    ParticipantId::from_random(0x1234_5678_9abc_def0_1122_3344_5566_7788)
}

#[test]
fn a_handle_opens_to_what_was_sealed_and_stays_short() {
    let keys = format!("{}:{A}", "k".repeat(KID_BYTES_MAX));
    let longest = "r".repeat(REGION_BYTES_MAX);
    for name in ["x", "blue-otter", "Ünï/ zimmer?", &"€".repeat(64), &"😀".repeat(32)] {
        let sealer = sealer(&longest, &keys);
        let handle = sealer.seal(&room(name), pid(), NONCE);
        assert!(handle.expose().len() <= HANDLE_CHARS_MAX, "{}", handle.expose().len());
        let opened = sealer.open(handle.expose()).unwrap();
        assert_eq!((opened.room.name(), opened.participant), (name, pid()));
    }
}

#[test]
fn every_changed_byte_and_every_cut_is_refused() {
    let sealer = sealer("local", &format!("k1:{A}\nk2:{B}"));
    let handle = sealer.seal(&room("blue-otter"), pid(), NONCE);
    let raw = URL_SAFE_NO_PAD.decode(handle.expose()).unwrap();
    for at in 0..raw.len() {
        for flip in [1_u8, 0x80, 0xff] {
            let mut bad = raw.clone();
            bad[at] ^= flip;
            assert!(sealer.open(&URL_SAFE_NO_PAD.encode(&bad)).is_err(), "{at} ^ {flip}");
        }
        assert!(sealer.open(&URL_SAFE_NO_PAD.encode(&raw[..at])).is_err(), "cut {at}");
    }
    let mut longer = raw;
    longer.push(0);
    assert_eq!(sealer.open(&URL_SAFE_NO_PAD.encode(&longer)), Err(OpenError::Forged));
}

#[test]
fn every_changed_character_is_refused() {
    let sealer = sealer("local", &format!("k1:{A}"));
    let handle = sealer.seal(&room("blue-otter-2"), pid(), NONCE);
    for at in 0..handle.expose().len() {
        for other in ["A", "_", "+", "/", "=", " ", "é"] {
            let mut bad = handle.expose().to_owned();
            bad.replace_range(at..=at, other);
            if bad != handle.expose() {
                assert!(sealer.open(&bad).is_err(), "{at} {other}");
            }
        }
    }
}

#[test]
fn only_the_exact_form_opens() {
    let ours = sealer("local", &format!("k1:{A}"));
    let handle = ours.seal(&room("r"), pid(), NONCE);
    let text = handle.expose();
    let other_version = {
        let mut raw = URL_SAFE_NO_PAD.decode(text).unwrap();
        raw[0] = 2;
        URL_SAFE_NO_PAD.encode(raw)
    };
    let cases = [
        (String::new(), OpenError::Malformed),
        ("AQ".to_owned(), OpenError::Malformed),
        (format!("{text}="), OpenError::Malformed),
        (format!("{text}=="), OpenError::Malformed),
        (format!(" {text}"), OpenError::Malformed),
        (format!("{text}\n"), OpenError::Malformed),
        ("A".repeat(HANDLE_CHARS_MAX + 1), OpenError::Malformed),
        ("A".repeat(HANDLE_CHARS_MAX), OpenError::Malformed),
        (other_version, OpenError::Malformed),
        // The reference's form: unsealed JSON.
        (URL_SAFE_NO_PAD.encode(r#"{"room":"r","participantId":"x"}"#), OpenError::Malformed),
    ];
    for (bad, want) in cases {
        assert_eq!(ours.open(&bad), Err(want), "{bad}");
    }
}

#[test]
fn keys_and_regions_of_others_do_not_open() {
    let handle = sealer("local", &format!("k1:{A}")).seal(&room("r"), pid(), NONCE);
    for (region, keys, want) in [
        ("local", format!("k1:{B}"), Err(OpenError::Forged)),
        ("local", format!("k2:{A}"), Err(OpenError::UnknownKey)),
        ("eu", format!("k1:{A}"), Err(OpenError::Foreign)),
        // After a rotation the old key still opens.
        ("local", format!("k2:{B}\nk1:{A}"), Ok(())),
    ] {
        let got = sealer(region, &keys).open(handle.expose()).map(|_| ());
        assert_eq!(got, want, "{region} {keys}");
    }
}

#[test]
fn two_seals_of_one_participant_differ() {
    let sealer = sealer("local", &format!("k1:{A}"));
    let one = sealer.seal(&room("r"), pid(), [1; NONCE_BYTES]);
    let two = sealer.seal(&room("r"), pid(), [2; NONCE_BYTES]);
    assert_ne!(one, two);
}

#[test]
fn debug_is_a_fixed_word() {
    let sealer = sealer("local", &format!("k1:{A}"));
    let handle = sealer.seal(&room("canary-room"), pid(), NONCE);
    let opened = sealer.open(handle.expose()).unwrap();
    assert_eq!(format!("{handle:?}"), "Handle(sealed)");
    for text in [format!("{sealer:?}"), format!("{opened:?}")] {
        assert!(!text.contains("canary-room") && !text.contains(A), "{text}");
    }
}

#[test]
fn region_names_are_checked() {
    let ring = KeyRing::parse(&format!("k1:{A}")).unwrap();
    for (region, legal) in [
        ("local", true),
        ("eu-1", true),
        (&*"r".repeat(REGION_BYTES_MAX), true),
        ("", false),
        ("EU", false),
        ("a.b", false),
        (&*"r".repeat(REGION_BYTES_MAX + 1), false),
    ] {
        assert_eq!(Sealer::new(region, ring.clone()).is_ok(), legal, "{region}");
    }
}
