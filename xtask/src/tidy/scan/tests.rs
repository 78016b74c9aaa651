//! The scanner against small sources.

use super::*;

#[test]
fn strings_comments_and_characters_are_blanked_in_place() {
    let table = [
        ("let a = \"x // y\"; // z", "let a = \"      \";     "),
        ("a /* b /* c */ d */ e", "a                   e"),
        ("let c = '\"'; f(\"s\")", "let c = ' '; f(\" \")"),
        ("let c = '\\''; g", "let c = '  '; g"),
        ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
        ("r#\"a \" b\"# + c", "           + c"),
        ("\"a\\\"b\" + c", "\"    \" + c"),
        ("'ü' + \"ü\"", "'  ' + \"  \""),
        ("for x in y { \"}\" }", "for x in y { \" \" }"),
    ];
    for (source, want) in table {
        let got = mask(source);
        assert_eq!(got, want, "{source}");
        assert_eq!(got.len(), source.len(), "{source}");
    }
}

#[test]
fn lines_survive_in_a_string_that_spans_them() {
    let masked = mask("a(\"x\ny\nz\");\nb");
    assert_eq!(masked.lines().count(), 4);
    assert_eq!(line_of(&masked, masked.find('b').unwrap()), 4);
}

#[test]
fn functions_are_found_with_their_lines() {
    let source = "\
trait T {
    fn declared(&self);
}
fn one(f: fn(u8) -> u8) -> [u8; 2] {
    let s = \"}\";
    fn inner() {}
}
";
    let functions = Masked::new(source, false).functions();
    let want = |name: &str, first, last| Function { name: name.to_owned(), first, last };
    assert_eq!(functions, [want("one", 4, 7), want("inner", 6, 6)]);
}

#[test]
fn test_code_is_told_by_its_attribute() {
    let source = "\
fn a() {}
#[cfg(test)]
#[expect(clippy::panic, reason = \"r\")]
mod tests {
    fn b() {}
}
fn c() {}
#[cfg(test)]
mod other;
fn d() {}
";
    let masked = Masked::new(source, false);
    let tests: Vec<usize> = (1..=10).filter(|line| masked.is_test(*line)).collect();
    assert_eq!(tests, [2, 3, 4, 5, 6, 8, 9]);
    assert!(Masked::new("fn a() {}", true).is_test(1));
}

#[test]
fn words_are_whole() {
    let found: Vec<usize> = find_words("sleep(x); asleep(y); sleep", "sleep").collect();
    assert_eq!(found, [0, 21]);
}
