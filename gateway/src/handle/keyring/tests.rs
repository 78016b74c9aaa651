use std::os::unix::fs::PermissionsExt as _;

use super::*;

const A: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

#[test]
fn lines_are_read_or_refused_with_their_number() {
    let long = format!("{}:{A}", "k".repeat(KID_BYTES_MAX + 1));
    let many: String = (0..=KEYS_MAX).map(|n| format!("k{n}:{A}\n")).collect();
    let most: String = (0..KEYS_MAX).map(|n| format!("k{n}:{A}\n")).collect();
    for (text, want) in [
        (format!("a:{A}"), None),
        (format!("\n a:{A} \r\n\nb:{}\n", A.trim_end_matches('=')), None),
        (most, None),
        (String::new(), Some("the handle key file has no key".to_owned())),
        (many, Some("the handle key file has more than 16 keys".to_owned())),
        (format!("a:{A}\nbogus"), Some(line(2, LineProblem::NoColon))),
        (format!(":{A}"), Some(line(1, LineProblem::KeyId))),
        (long, Some(line(1, LineProblem::KeyId))),
        (format!("a b:{A}"), Some(line(1, LineProblem::KeyId))),
        ("a:AAEC".to_owned(), Some(line(1, LineProblem::Key))),
        (format!("a:{}", A.replace('A', "!")), Some(line(1, LineProblem::Key))),
        (format!("a:{A}\n\na:{A}"), Some(line(3, LineProblem::Repeated))),
    ] {
        let got = KeyRing::parse(&text).err().map(|error| error.to_string());
        assert_eq!(got, want, "{text}");
    }
}

fn line(line: usize, problem: LineProblem) -> String {
    KeyFileError::Line { line, problem }.to_string()
}

#[test]
fn errors_and_debug_hold_no_key() {
    let secret = "c2VjcmV0LWNhbmFyeS1zZWNyZXQtY2FuYXJ5";
    for bad in [format!("a:{secret}"), format!("a{secret}"), format!("a:{secret}=:x")] {
        let error = KeyRing::parse(&format!("k:{A}\n{bad}\n")).err().unwrap();
        assert!(!format!("{error} {error:?}").contains(secret));
    }
    let ring = KeyRing::parse(&format!("k:{A}")).unwrap();
    assert_eq!(format!("{ring:?}"), "KeyRing(secret)");
    assert_eq!(format!("{:?}", ring.first()), "Key(k, secret)");
}

#[test]
fn a_fresh_ring_is_private_and_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys/handle-keys");
    let made = KeyRing::load_or_generate(&path).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let again = KeyRing::load_or_generate(&path).unwrap();
    assert_eq!(made.first().id(), again.first().id());
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    assert!(matches!(KeyRing::load(directory.path()), Err(KeyFileError::Read(_))));
}

#[test]
fn a_file_over_its_bound_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handle-keys");
    fs::write(&path, " ".repeat(usize::try_from(KEY_FILE_BYTES_MAX).unwrap() + 1)).unwrap();
    assert!(matches!(KeyRing::load(&path), Err(KeyFileError::TooLarge)));
}

#[test]
fn a_changed_file_is_taken_and_a_bad_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handle-keys");
    fs::write(&path, format!("old:{A}")).unwrap();
    let ring = KeyRing::load(&path).unwrap();
    let mut watched = Watched { seen: stamp(&path).ok(), path: path.clone() };
    assert!(!watched.look(&ring).unwrap());

    fs::write(&path, format!("new:{A}\nold:{A}")).unwrap();
    assert!(watched.look(&ring).unwrap());
    assert_eq!(ring.first().id(), "new");
    assert!(ring.find(b"old").is_some());

    fs::write(&path, "broken").unwrap();
    assert!(watched.look(&ring).is_err());
    assert!(!watched.look(&ring).unwrap());
    assert_eq!(ring.first().id(), "new");
}
